import type { ModelRow } from '../api/wire.ts'

/** The default if there is only the simulator: its other models fail or are slow. */
const echo = 'sim/echo'

/** The model to begin with, of those that can be called: the first real one that daily credit pays for, if any. */
export function firstModel(callable: readonly ModelRow[]): ModelRow | undefined {
  const real = callable.filter((model) => !model.id.startsWith('sim/'))
  return (
    real.find((model) => model.flash_class) ??
    real[0] ??
    callable.find((model) => model.id === echo) ??
    callable[0]
  )
}
