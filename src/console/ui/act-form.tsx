// A form in a dialog that sends one act: it shows why it was refused, and cannot be sent twice at once.

import type { FormEvent, ReactNode } from 'react'
import { faultIn } from '../api/call.ts'
import { Button, Failure } from './basics.tsx'
import { useAct } from './use-act.ts'

interface ActFormProps {
  /** Runs the act. What it throws is shown. */
  readonly onSubmit: (given: FormData) => Promise<void>
  /** The text of its button. */
  readonly action: string
  readonly look?: 'primary' | 'danger'
  /** Names of fields that show their own faults, by the function that `children` gets. */
  readonly fields?: readonly string[]
  readonly children: ReactNode | ((faultOf: (field: string) => string | undefined) => ReactNode)
}

export function ActForm({ onSubmit, action, look = 'primary', fields = [], children }: ActFormProps) {
  const { error, busy, act } = useAct()
  const fault = error === null ? undefined : faultIn(error)
  const faultOf = (field: string) => (fault?.param === field ? fault.message : undefined)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const given = new FormData(event.currentTarget)
    void act(() => onSubmit(given))
  }
  return (
    <form onSubmit={submit} className="grid gap-3.5">
      {typeof children === 'function' ? children(faultOf) : children}
      {fault && !fields.includes(fault.param ?? '') && <Failure error={error} />}
      <div>
        <Button type="submit" look={look} busy={busy}>
          {action}
        </Button>
      </div>
    </form>
  )
}
