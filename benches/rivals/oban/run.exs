# MIX_ENV=prod mix run --no-compile run.exs: one JSON line a row, as benches/README.md says.

case Contender.orders(System.get_env()) do
  {:ok, url, rows} ->
    Rival.Rows.run(url, rows)
    System.halt(0)

  {:error, what} ->
    IO.puts(:stderr, what)
    System.halt(1)
end
