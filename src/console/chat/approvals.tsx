// Tool calls that wait for approval: each is allowed once or denied, and the answer goes on when all are decided.

import { useState } from 'react'
import { t } from '../strings/text.ts'
import { Badge, Button } from '../ui/basics.tsx'
import type { Approval, ApprovalRequest } from './thread/thread.ts'

interface ApprovalsProps {
  readonly requests: readonly ApprovalRequest[]
  /** The decisions; undefined while the answer is the last turn. */
  readonly decided: readonly Approval[] | undefined
  readonly locked: boolean
  readonly onDecide: (approvals: readonly Approval[]) => void
}

export function Approvals({ requests, decided, locked, onDecide }: ApprovalsProps) {
  const [chosen, setChosen] = useState<readonly Approval[]>([])
  const choose = (id: string, approve: boolean) => {
    const all = [...chosen.filter((other) => other.id !== id), { id, approve }]
    setChosen(all)
    if (all.length === requests.length) onDecide(all)
  }
  return (
    <div className="mb-3 grid gap-2">
      {requests.map((request) => (
        <Request
          key={request.id}
          request={request}
          decision={(decided ?? chosen).find(({ id }) => id === request.id)?.approve}
          open={decided === undefined}
          locked={locked}
          onChoose={(approve) => choose(request.id, approve)}
        />
      ))}
    </div>
  )
}

interface RequestProps {
  readonly request: ApprovalRequest
  readonly decision: boolean | undefined
  readonly open: boolean
  readonly locked: boolean
  readonly onChoose: (approve: boolean) => void
}

function Request({ request, decision, open, locked, onChoose }: RequestProps) {
  const { server, tool } = request
  return (
    <div
      role="group"
      className="rounded-md border border-line-strong px-3 py-2"
      aria-label={t('Permission for {tool}', { tool })}
    >
      <p className="text-[13px]">
        {t('The model wants to call a tool of {server}:', { server })}{' '}
        <span className="font-mono font-medium break-all">{visible(tool)}</span>
      </p>
      <pre
        tabIndex={0}
        role="group"
        aria-label={t('What it is called with')}
        className="mt-1 max-h-60 overflow-auto font-mono text-[12px] break-all whitespace-pre-wrap"
      >
        {visible(indentJson(request.arguments))}
      </pre>
      <div className="mt-2 flex flex-wrap items-center gap-2">
        {decision === undefined && open && (
          <>
            <Button small look="primary" disabled={locked} onClick={() => onChoose(true)}>
              {t('Allow once')}
            </Button>
            <Button small look="danger" disabled={locked} onClick={() => onChoose(false)}>
              {t('Deny')}
            </Button>
          </>
        )}
        {decision === undefined && !open && <Badge>{t('not answered')}</Badge>}
        {decision !== undefined && (
          <Badge tone={decision ? 'good' : 'warn'}>{decision ? t('allowed once') : t('denied')}</Badge>
        )}
      </div>
    </div>
  )
}

/** Characters that are not seen but move or hide others are written out, so that what is shown is what will be sent. */
function visible(text: string): string {
  return text.replace(
    /[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Formatted JSON, or the model's text if it is not JSON. */
function indentJson(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}
