# elixir test/contender_test.exs: needs no package.

Code.require_file("../lib/contender.ex", __DIR__)
ExUnit.start()

defmodule ContenderTest do
  use ExUnit.Case, async: true

  alias Contender.Effects

  defp env(rows), do: %{"DATABASE_URL" => "postgres://localhost/x", "REFEREE_ROWS" => rows}

  test "rows come in the order asked" do
    rows = [{"process_c10", 6000}, {"enqueue_1by1", 3}]

    assert Contender.orders(env(" process_c10=6000  enqueue_1by1=3 ")) ==
             {:ok, "postgres://localhost/x", rows}
  end

  test "a row without a size is refused by name" do
    for order <- ["process_c10", "process_c10=", "process_c10=many", "process_c10=-1", "=1"] do
      assert {:error, what} = Contender.orders(env(order))
      assert String.starts_with?(what, order <> ":")
    end
  end

  test "a missing variable is named" do
    for name <- ["DATABASE_URL", "REFEREE_ROWS"] do
      assert {:error, what} = Contender.orders(Map.delete(env("process_c1=1"), name))
      assert what =~ name
    end
  end

  test "a payload is 100 bytes of JSON and names its job" do
    for id <- [0, 7, 123_456, 99_999_999] do
      %{id: ^id, data: data} = Contender.payload(id)
      assert byte_size(~s({"id":#{id},"data":"#{data}"})) == 100
    end
  end

  test "each job counts once and the rest is told apart" do
    effects = Effects.of(3)
    for id <- [0, 2, 2, 2], do: Effects.happened(effects, id)
    assert {Effects.done(effects), Effects.twice(effects)} == {2, 2}
    Effects.happened(effects, 1)
    assert Effects.await(effects, 10_000) == :ok
  end

  test "a job that was never enqueued ends the wait" do
    for strange <- [3, -1, nil] do
      effects = Effects.of(3)
      Effects.happened(effects, strange)
      assert_raise RuntimeError, ~r/never enqueued/, fn -> Effects.await(effects, 10_000) end
    end
  end

  test "silence ends the wait, and says how far it came" do
    effects = Effects.of(3)
    Effects.happened(effects, 1)
    assert_raise RuntimeError, ~r/20 ms; 1 of 3/, fn -> Effects.await(effects, 20) end
  end

  test "the first fifth is thrown away" do
    waits = List.duplicate(900_000, 25) ++ Enum.map(1..100, &(&1 * 1000))
    assert Contender.percentiles(waits) == %{p50: 50.0, p99: 99.0}
    assert Contender.percentiles([]) == nil
  end

  test "a rate is jobs a second" do
    assert Contender.per_s(10, 2_000_000) == 5
  end
end
