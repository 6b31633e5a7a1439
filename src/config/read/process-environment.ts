// The process's environment, in a file of its own: it is needed before anything else is loaded.

/** The only place that reads the process environment; everything else is passed it. */
export function readEnvironment(): Readonly<Record<string, string | undefined>> {
  return process.env
}
