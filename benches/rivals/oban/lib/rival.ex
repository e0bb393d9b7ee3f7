defmodule Rival.Repo do
  use Ecto.Repo, otp_app: :oban_rival, adapter: Ecto.Adapters.Postgres
end

defmodule Rival.Migration do
  use Ecto.Migration

  def up do
    Oban.Migration.up()

    create_if_not_exists table(:fills) do
      add :ref, :text
      add :qty, :integer
    end
  end

  def down, do: :ok
end

defmodule Rival.Fill do
  @moduledoc "The business row of `transactional`."
  use Ecto.Schema

  schema "fills" do
    field :ref, :string
    field :qty, :integer
  end
end

defmodule Rival.Work do
  @moduledoc "Hands the id of each job to the handler of the row that is being done."
  use Oban.Worker, queue: :default, max_attempts: 3

  def handler(handle), do: :persistent_term.put(__MODULE__, handle)

  @impl true
  def perform(%Oban.Job{args: %{"id" => id}}) do
    :persistent_term.get(__MODULE__).(id)
    :ok
  end
end

defmodule Rival do
  @moduledoc """
  Oban at its defaults: the Basic engine and the PostgreSQL notifier. Everything that the rows need
  of it, and of the database.
  """

  alias Rival.{Fill, Migration, Repo, Work}

  @pool_size 20

  def connect(url) do
    Application.put_env(:oban_rival, Repo, url: url, pool_size: @pool_size, log: false)
    {:ok, _} = Repo.start_link()
    Ecto.Migrator.run(Repo, [{1, Migration}], :up, all: true, log: false)
  end

  def versions do
    %{
      oban: to_string(Application.spec(:oban, :vsn)),
      elixir: System.version(),
      otp: to_string(:erlang.system_info(:otp_release)),
      server: "postgres " <> one("show server_version"),
      synchronous_commit: one("show synchronous_commit")
    }
  end

  def clear, do: Repo.query!("TRUNCATE oban_jobs, fills RESTART IDENTITY")

  @doc "An instance that only enqueues."
  def start_enqueuing do
    start(queues: [], peer: false, stage_interval: :infinity)
  end

  @doc "An instance that works `concurrency` jobs at a time."
  def start_working(concurrency, options \\ []) do
    start([queues: [default: concurrency]] ++ options)
  end

  defp start(options) do
    {:ok, oban} = Oban.start_link([repo: Repo, plugins: [], log: false] ++ options)
    oban
  end

  @doc "Stops an instance; one that has died already is stopped."
  def stop(oban) do
    Supervisor.stop(oban)
  catch
    :exit, _ -> :ok
  end

  def enqueue(id), do: Oban.insert!(job(id))

  @doc "Enqueues by the bulk call, 1,000 jobs a call."
  def enqueue_bulk(ids) do
    for some <- Stream.chunk_every(ids, 1000), do: Oban.insert_all(Enum.map(some, &job/1))
  end

  defp job(id), do: Work.new(Contender.payload(id))

  @doc "Writes a business row and a job in one transaction, which `commit?` decides."
  def enqueue_with_row(id, commit?) do
    Ecto.Multi.new()
    |> Ecto.Multi.insert(:fill, %Fill{ref: "r#{id}", qty: id})
    |> Oban.insert(:job, job(id))
    |> Ecto.Multi.run(:decide, fn _repo, _changes ->
      if commit?, do: {:ok, :commit}, else: {:error, :rollback}
    end)
    |> Repo.transaction()
  end

  def fills, do: one("select count(*) from fills")
  def jobs, do: one("select count(*) from oban_jobs")
  def unsettled, do: one("select count(*) from oban_jobs where state <> 'completed'")

  @doc "What the jobs take on disk, indexes and all."
  def bytes, do: one("select pg_total_relation_size('oban_jobs')")

  @doc "When the database was started, as a text; `nil` while it doesn't answer."
  def server_started do
    case Repo.query("select pg_postmaster_start_time()::text") do
      {:ok, %{rows: [[at]]}} -> at
      {:error, _} -> nil
    end
  rescue
    _ -> nil
  catch
    :exit, _ -> nil
  end

  defp one(query), do: Repo.query!(query).rows |> hd() |> hd()
end
