defmodule Rival.Rows do
  @moduledoc "The rows of the referee, each on an empty table."

  alias Contender.Effects

  @patience_ms 45_000
  @pickup_every_ms 3
  # Oban elects a leader and listens before it serves at once.
  @until_idle_ms 1500

  @absent %{"process_lanes" => "partitioned queues are in Oban Pro, which is paid"}

  def run(url, rows) do
    # An instance that dies of its database ends its row, and not the run.
    Process.flag(:trap_exit, true)
    Rival.connect(url)
    Contender.line("versions", Rival.versions())
    for {row, n} <- rows, do: Contender.line(row, result(row, n))
  end

  defp result(row, n) do
    case @absent do
      %{^row => why} ->
        %{absent: why}

      _ ->
        Rival.clear()
        measure(row, n)
    end
  rescue
    error -> %{failed: Exception.message(error)}
  catch
    :exit, reason -> %{failed: Exception.format_exit(reason)}
  end

  defp measure("enqueue_1by1", n) do
    enqueuing(n, fn -> for id <- ids(n), do: Rival.enqueue(id) end)
  end

  defp measure("enqueue_50", n) do
    next = :atomics.new(1, [])

    enqueuing(n, fn ->
      1..50
      |> Enum.map(fn _ -> Task.async(fn -> take_turns(next, n) end) end)
      |> Task.await_many(:infinity)
    end)
  end

  defp measure("enqueue_bulk", n), do: enqueuing(n, fn -> Rival.enqueue_bulk(ids(n)) end)
  defp measure("process_c1", n), do: process(n, 1)
  defp measure("process_c10", n), do: process(n, 10)
  defp measure("process_c50", n), do: process(n, 50)
  defp measure("process_c200", n), do: process(n, 200)
  defp measure("idle_pickup_ms", n), do: idle_pickup(n)
  defp measure("fairness", n), do: fairness(n)
  defp measure("recovery", n), do: Rival.Recovery.measure(n)

  defp measure("bytes_a_job", n) do
    before = Rival.bytes()
    filled(ids(n))
    %{n: n, bytes: div(Rival.bytes() - before, max(n, 1))}
  end

  # The advantage of a queue in the database: the job is there if and only if the row is.
  defp measure("transactional", n) do
    outcomes = enqueuing_with(fn -> Enum.map(ids(n), &with_row/1) end)
    committed = Enum.count(outcomes, &match?({:ok, _}, &1))
    %{attempted: n, committed: committed, fills: Rival.fills(), jobs: Rival.jobs()}
  end

  defp measure(_row, _n), do: %{absent: "this contender knows no such row"}

  defp with_row(id), do: Rival.enqueue_with_row(id, rem(id, 2) == 0)

  defp take_turns(next, n) do
    id = :atomics.add_get(next, 1, 1) - 1

    if id < n do
      Rival.enqueue(id)
      take_turns(next, n)
    end
  end

  defp enqueuing(n, work) do
    enqueuing_with(fn ->
      began = now_us()
      work.()
      %{n: n, per_s: Contender.per_s(n, now_us() - began)}
    end)
  end

  defp enqueuing_with(work) do
    oban = Rival.start_enqueuing()

    try do
      work.()
    after
      Rival.stop(oban)
    end
  end

  @doc "Fills the jobs in, with nobody to work them."
  def filled(ids), do: enqueuing_with(fn -> Rival.enqueue_bulk(ids) end)

  @doc "Does `meanwhile` while an instance works, and stops it whatever happens."
  def working(concurrency, options, handle, meanwhile) do
    Rival.Work.handler(handle)
    oban = Rival.start_working(concurrency, options)

    try do
      meanwhile.()
    after
      Rival.stop(oban)
    end
  end

  defp process(n, concurrency) do
    filled(ids(n))
    effects = Effects.of(n)
    began = now_us()

    working(concurrency, [peer: false], &Effects.happened(effects, &1), fn ->
      Effects.await(effects, @patience_ms)
      settled(now_us() + @patience_ms * 1000)
      rate = Contender.per_s(n, now_us() - began)
      %{n: n, done: Effects.done(effects), twice: Effects.twice(effects), per_s: rate}
    end)
  end

  defp settled(until_us) do
    left = Rival.unsettled()

    cond do
      left == 0 -> :ok
      now_us() > until_us -> raise "#{left} jobs are unsettled long after their effects"
      true -> settled(until_us)
    end
  end

  defp idle_pickup(n) do
    effects = Effects.of(n)
    sent = :atomics.new(max(n, 1), [])
    started = :atomics.new(max(n, 1), [])

    start = fn id ->
      :atomics.put(started, id + 1, now_us())
      Effects.happened(effects, id)
    end

    working(10, [], start, fn ->
      Process.sleep(@until_idle_ms)
      began = now_us()
      ids(n) |> Enum.map(&send_in_time(&1, began, sent)) |> Task.await_many(:infinity)
      Effects.await(effects, @patience_ms)
    end)

    waits = for id <- ids(n), do: :atomics.get(started, id + 1) - :atomics.get(sent, id + 1)
    picked_up(n, Contender.percentiles(waits))
  end

  defp picked_up(_n, nil), do: %{failed: "no job was served"}
  defp picked_up(n, found), do: Map.put(found, :n, n)

  # A task of its own, so that a slow insert doesn't hold up the next job.
  defp send_in_time(id, began, sent) do
    Process.sleep(max(0, div(began - now_us(), 1000) + id * @pickup_every_ms))

    Task.async(fn ->
      :atomics.put(sent, id + 1, now_us())
      Rival.enqueue(id)
    end)
  end

  # Oban has no tenants: one tenant's jobs are those below n, and stand before the others'.
  defp fairness(n) do
    quiet = 10 * max(1, div(n, 1000))
    filled(ids(n + quiet))
    effects = Effects.of(n + quiet)
    noisy = :counters.new(1, [:atomics])
    before = :atomics.new(1, [])

    handle = fn id ->
      if id < n,
        do: :counters.add(noisy, 1, 1),
        else: :atomics.put(before, 1, :counters.get(noisy, 1))

      Effects.happened(effects, id)
    end

    working(10, [peer: false], handle, fn -> Effects.await(effects, @patience_ms) end)
    %{n: n, quiet: quiet, noisy_before_last_quiet: :atomics.get(before, 1)}
  end

  @doc "The jobs from 0 to n - 1."
  def ids(n), do: Enum.take(Stream.iterate(0, &(&1 + 1)), n)

  defp now_us, do: System.monotonic_time(:microsecond)
end
