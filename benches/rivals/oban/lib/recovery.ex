defmodule Rival.Recovery do
  @moduledoc "The row in which the referee kills the database and starts it again."

  alias Contender.Effects

  @handler_ms 1
  # An instance that serves nothing for this long, with a database there, hasn't recovered. At its
  # defaults Oban looks for no jobs that were left executing, so nothing comes later either.
  @silence_ms 30_000
  @look_every_ms 50

  def measure(n) do
    Rival.Rows.filled(Rival.Rows.ids(n))
    effects = Effects.of(n)
    starts = :counters.new(1, [:atomics])

    handle = fn id ->
      Contender.line("recovery", %{served_us: System.os_time(:microsecond)})
      :counters.add(starts, 1, 1)
      Process.sleep(@handler_ms)
      Effects.happened(effects, id)
    end

    Rival.Rows.working(10, [], handle, fn ->
      server = Rival.server_started()
      wait(effects, starts, %{last: "the start", starts: 0, since: now_ms(), server: server})
    end)

    %{n: n, done: Effects.done(effects), twice: Effects.twice(effects)}
  end

  # Until all is done and settled; short of that, until nothing more can be expected.
  defp wait(effects, starts, seen) do
    server = Rival.server_started()
    seen = news(seen, server, :counters.get(starts, 1))
    quiet = now_ms() - seen.since > @silence_ms

    cond do
      server != nil and Effects.done(effects) == effects.n and settled?() ->
        :ok

      quiet and seen.last != "a job" ->
        raise "no job was served within #{@silence_ms} ms of #{seen.last}; " <>
                "#{Effects.done(effects)} are done"

      quiet ->
        :ok

      true ->
        Process.sleep(@look_every_ms)
        wait(effects, starts, seen)
    end
  end

  # What starts while the database is away was fetched before: it shows no recovery.
  defp news(seen, nil, starts), do: %{seen | starts: starts}

  defp news(%{server: before} = seen, server, starts) when server != before do
    %{seen | last: "the database's return", starts: starts, since: now_ms(), server: server}
  end

  defp news(%{starts: before} = seen, _server, starts) when starts > before do
    %{seen | last: "a job", starts: starts, since: now_ms()}
  end

  defp news(seen, _server, _starts), do: seen

  defp settled? do
    Rival.unsettled() == 0
  rescue
    _ -> false
  catch
    :exit, _ -> false
  end

  defp now_ms, do: System.monotonic_time(:millisecond)
end
