defmodule Rival.MixProject do
  use Mix.Project

  def project, do: [app: :oban_rival, version: "0.1.0", elixir: "~> 1.14", deps: deps()]
  def application, do: [extra_applications: [:logger]]

  defp deps do
    [
      {:oban, "2.18.3"},
      {:postgrex, "0.19.1"},
      {:ecto_sql, "3.12.0"},
      {:jason, "1.4.1"}
    ]
  end
end
