import Config

# Standard output is the referee's: what people should read goes to standard error. The first line
# is for Elixir up to 1.14, the second for later ones.
config :logger, :console, device: :standard_error
config :logger, :default_handler, config: [type: :standard_error]
config :logger, level: :error
