defmodule Contender do
  @moduledoc """
  What one side of the referee speaks: orders from the environment, rows as JSON lines, and the
  measures that all sides take the same way. The protocol is described in `benches/README.md`; the
  crate `contender` is the same for Rust. Knows nothing of Oban.
  """

  @payload_bytes 100

  @doc "The orders of one run: the database, and rows with their sizes in the order to do them."
  def orders(env) do
    with {:ok, url} <- named(env, "DATABASE_URL", "an empty PostgreSQL database"),
         {:ok, orders} <- named(env, "REFEREE_ROWS", ~s("enqueue_1by1=3000 process_c10=6000")),
         {:ok, rows} <- rows(String.split(orders)) do
      {:ok, url, rows}
    end
  end

  defp named(env, name, such_as) do
    case env do
      %{^name => value} -> {:ok, value}
      _ -> {:error, "set #{name}, such as #{such_as}"}
    end
  end

  defp rows(orders) do
    case Enum.find(orders, &(row_and_size(&1) == nil)) do
      nil -> {:ok, Enum.map(orders, &row_and_size/1)}
      order -> {:error, "#{order}: a row is <row>=<n>"}
    end
  end

  defp row_and_size(order) do
    case Regex.run(~r/\A([^=]+)=(\d+)\z/, order) do
      [_, row, n] -> {row, String.to_integer(n)}
      nil -> nil
    end
  end

  @doc "The payload of job `id`: written as JSON it has 100 bytes."
  def payload(id) do
    bare = byte_size(~s({"id":#{id},"data":""}))
    %{id: id, data: String.duplicate("x", max(0, @payload_bytes - bare))}
  end

  @doc """
  Of how long each job waited, in microseconds and in the order of enqueueing: p50 and p99 in
  milliseconds. The first fifth, which warms up, is thrown away; `nil` when nothing is left.
  """
  def percentiles(waits_us) do
    kept = waits_us |> Enum.drop(div(length(waits_us), 5)) |> Enum.sort() |> List.to_tuple()
    at = fn percent -> elem(kept, div((tuple_size(kept) - 1) * percent, 100)) / 1000 end
    if tuple_size(kept) > 0, do: %{p50: at.(50), p99: at.(99)}
  end

  @doc "Jobs a second, of `n` jobs in `took_us`."
  def per_s(n, took_us), do: div(n * 1_000_000, max(took_us, 1))

  @doc "Prints one line of a row."
  def line(row, fields), do: IO.puts(Jason.encode!(Map.put(fields, :row, row)))
end

defmodule Contender.Effects do
  @moduledoc "Exact delivery, counted: the effects of jobs 0 to n - 1."

  @look_every_ms 2
  # Indices into the counters.
  @done 1
  @twice 2
  @strange 3

  defstruct [:n, :times, :counts]

  def of(n) do
    counts = :counters.new(3, [:atomics])
    %__MODULE__{n: n, times: :atomics.new(max(n, 1), signed: false), counts: counts}
  end

  @doc "Job `id` has its effect."
  def happened(%{n: n} = effects, id) when is_integer(id) and id >= 0 and id < n do
    first = :atomics.add_get(effects.times, id + 1, 1) == 1
    :counters.add(effects.counts, if(first, do: @done, else: @twice), 1)
  end

  # A rival that makes up jobs isn't measured: `await/2` ends the row.
  def happened(effects, _id), do: :counters.add(effects.counts, @strange, 1)

  @doc "Different jobs whose effect happened."
  def done(effects), do: :counters.get(effects.counts, @done)

  @doc "Effects beyond the first of a job."
  def twice(effects), do: :counters.get(effects.counts, @twice)

  @doc """
  Waits until every job has had its effect. Being acknowledged is more: a contender waits for that
  too before it stops its clock. Raises when nothing happened for `patience_ms`.
  """
  def await(effects, patience_ms), do: await(effects, patience_ms, {-1, 0})

  defp await(effects, patience_ms, {seen, since}) do
    now = System.monotonic_time(:millisecond)
    total = done(effects) + twice(effects)

    cond do
      :counters.get(effects.counts, @strange) > 0 ->
        raise "a job was served that was never enqueued"

      done(effects) == effects.n ->
        :ok

      total == seen and now - since >= patience_ms ->
        raise "no job was served for #{patience_ms} ms; #{done(effects)} of #{effects.n} are done"

      true ->
        Process.sleep(@look_every_ms)
        await(effects, patience_ms, if(total == seen, do: {seen, since}, else: {total, now}))
    end
  end
end
