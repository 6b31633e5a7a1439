import { useState } from 'react'

/** Runs an act: `busy` while it runs, `error` if it was refused. */
export function useAct() {
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const act = async (work: () => Promise<void>) => {
    setBusy(true)
    setError(null)
    try {
      await work()
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }
  return { error, busy, act }
}
