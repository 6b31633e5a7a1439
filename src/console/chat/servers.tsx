// The registered MCP servers whose tools the next answers may use.

import { useState } from 'react'
import { Link } from 'wouter'
import { useMcpServers } from '../api/queries.ts'
import { t } from '../strings/text.ts'
import { Badge, Failure, Loading } from '../ui/basics.tsx'
import { Dialog } from '../ui/dialog.tsx'

interface ServersProps {
  readonly chosen: readonly string[]
  readonly onChoose: (names: readonly string[]) => void
}

export function Servers({ chosen, onChoose }: ServersProps) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(true)}
        className={`inline-flex h-7 items-center rounded-md px-2 text-[13px] font-medium ${
          chosen.length > 0 ? 'bg-accent text-accent-ink' : 'text-accent hover:bg-accent-soft'
        }`}
      >
        {chosen.length === 0 ? t('Tools') : t('Tools: {count}', { count: chosen.length })}
      </button>
      {open && (
        <Dialog title={t('Tools for this chat')} onClose={() => setOpen(false)}>
          <Choices chosen={chosen} onChoose={onChoose} />
        </Dialog>
      )}
    </>
  )
}

function Choices({ chosen, onChoose }: ServersProps) {
  const { data, error, isPending, refetch } = useMcpServers()
  if (error) return <Failure error={error} retry={() => void refetch()} />
  if (isPending) return <Loading rows={2} />
  return (
    <div className="grid gap-3">
      <p className="text-muted">
        {data.length === 0
          ? t('No MCP server is registered yet.')
          : t('Before a tool is called, you are asked.')}
      </p>
      {data.length > 0 && (
        <ul className="grid gap-1.5">
          {data.map(({ name, needs_authorization: lacking }) => (
            <li key={name}>
              <label className="flex items-center gap-2">
                <input
                  type="checkbox"
                  checked={chosen.includes(name)}
                  onChange={({ target }) =>
                    onChoose(target.checked ? [...chosen, name] : chosen.filter((other) => other !== name))
                  }
                />
                <span className="min-w-0 font-mono break-all">{name}</span>
                {lacking && <Badge tone="warn">{t('needs a sign-in')}</Badge>}
              </label>
            </li>
          ))}
        </ul>
      )}
      <p>
        <Link href="/mcp" className="text-accent underline">
          {t('Servers and their tools')}
        </Link>
      </p>
    </div>
  )
}
