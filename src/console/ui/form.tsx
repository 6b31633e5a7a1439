// Fields of forms, each with a label, a hint and its error.

import {
  type FormEvent,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  useId,
  useState,
} from 'react'
import { faultIn } from '../api/call.ts'
import { Button, Failure } from './basics.tsx'

interface FieldProps {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | undefined
}

export function TextField({
  label,
  hint,
  error,
  ...input
}: FieldProps & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId()
  return (
    <Framed id={id} label={label} hint={hint} error={error}>
      <input
        id={id}
        className="control"
        aria-invalid={error !== undefined || undefined}
        aria-describedby={describedBy(id, hint, error)}
        {...input}
      />
    </Framed>
  )
}

export function Choice({
  label,
  hint,
  error,
  options,
  ...select
}: FieldProps &
  SelectHTMLAttributes<HTMLSelectElement> & { options: readonly (readonly [string, string])[] }) {
  const id = useId()
  return (
    <Framed id={id} label={label} hint={hint} error={error}>
      <select id={id} className="control" aria-describedby={describedBy(id, hint, error)} {...select}>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </Framed>
  )
}

function Framed({ id, label, hint, error, children }: FieldProps & { id: string; children: ReactNode }) {
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      {children}
      {hint !== undefined && (
        <p id={`${id}-hint`} className="mt-1 text-[12.5px] text-muted">
          {hint}
        </p>
      )}
      {error !== undefined && (
        <p id={`${id}-error`} className="mt-1 text-[12.5px] text-bad">
          {error}
        </p>
      )}
    </div>
  )
}

function describedBy(id: string, hint: ReactNode, error: string | undefined): string | undefined {
  const ids = [...(hint === undefined ? [] : [`${id}-hint`]), ...(error === undefined ? [] : [`${id}-error`])]
  return ids.length === 0 ? undefined : ids.join(' ')
}

/** The text of a field; undefined if it is empty. */
export function textOf(form: FormData, name: string): string | undefined {
  const value = form.get(name)
  const text = typeof value === 'string' ? value.trim() : ''
  return text === '' ? undefined : text
}

// A form in a dialog that sends one act: it shows why it was refused, and cannot be sent twice at once.

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
