// One question and its answer: reasoning and tools folded, the text as it grows, and its cost.

import { memo, useState } from 'react'
import { Link } from 'wouter'
import { addressOf } from '../api/call.ts'
import { poolName } from '../pages/words.tsx'
import { count, t, usd, usdShort } from '../strings/text.ts'
import { Badge, Button, Copy } from '../ui/kit.tsx'
import { Markdown } from './markdown.tsx'
import type { Answer, Approval, ApprovalRequest, ChatTurn, ToolRun } from './thread.ts'

interface TurnProps {
  readonly turn: ChatTurn
  /** While an answer is being written, no other question can be sent. */
  readonly locked: boolean
  /** The decisions about the answer's tool calls; undefined while it is the last turn. */
  readonly decided: readonly Approval[] | undefined
  /** Without it a question is not edited. */
  readonly onEdit?: () => void
  readonly onAgain: () => void
  /** Without it no tool is called that waits for permission. */
  readonly onDecide?: (approvals: readonly Approval[]) => void
}

export const TurnView = memo(
  function TurnView({ turn, locked, decided, onEdit, onAgain, onDecide }: TurnProps) {
    const { approvals, answer } = turn
    const asks = approvals.length === 0
    return (
      <article className="mb-8">
        {asks && <Question turn={turn} locked={locked} {...(onEdit && { onEdit })} />}
        <h2 className="mb-1 font-mono text-[12px] text-muted">{answer.model}</h2>
        {answer.reasoning !== '' && <Reasoning answer={answer} />}
        {answer.tools.map((tool) => (
          <Tool key={tool.id} tool={tool} />
        ))}
        {onDecide && answer.requests.length > 0 && answer.state !== 'running' && (
          <Approvals requests={answer.requests} decided={decided} locked={locked} onDecide={onDecide} />
        )}
        <Markdown text={answer.text} growing={answer.state === 'running'} />
        {answer.sources.length > 0 && <Sources of={answer.sources} />}
        {answer.state === 'running' && (
          <span className="mt-1 inline-block h-4 w-2 animate-pulse bg-accent" aria-hidden="true" />
        )}
        <End answer={answer} />
        {answer.state !== 'running' && (
          <div className="mt-2 -ml-2 flex flex-wrap items-center gap-1">
            {answer.text !== '' && <Copy text={answer.text} look="quiet" />}
            {turn.imported !== true && (asks || answer.state !== 'done') && (
              <Button small look="quiet" disabled={locked} onClick={onAgain}>
                {t('Again')}
              </Button>
            )}
            <Cost answer={answer} />
          </div>
        )}
      </article>
    )
  },
  (before, now) => before.turn === now.turn && before.locked === now.locked && before.decided === now.decided,
)

function Question({ turn, locked, onEdit }: Pick<TurnProps, 'turn' | 'locked' | 'onEdit'>) {
  const { text, attachments } = turn
  return (
    <div className="mb-4 flex flex-col items-end">
      <h2 className="sr-only">{t('You')}</h2>
      {attachments.length > 0 && (
        <ul className="mb-1 flex flex-wrap justify-end gap-2">
          {attachments.map(({ name, type, data }, index) => (
            <li key={index} className="card overflow-hidden text-[12.5px]">
              {type.startsWith('image/') && data.startsWith('data:') ? (
                <img src={data} alt={name} className="max-h-40 max-w-60" />
              ) : (
                <span className="block px-2 py-1">{name}</span>
              )}
            </li>
          ))}
        </ul>
      )}
      {text !== '' && (
        <p
          dir="auto"
          className="max-w-[85%] rounded-lg bg-accent-soft px-3.5 py-2 break-words whitespace-pre-wrap"
        >
          {text}
        </p>
      )}
      {onEdit && (
        <Button small look="quiet" disabled={locked} onClick={onEdit}>
          {t('Edit')}
        </Button>
      )}
    </div>
  )
}

function Reasoning({ answer }: { answer: Answer }) {
  return (
    <details className="mb-3 rounded-md border border-line px-3 py-1.5">
      <summary className="text-[13px] text-muted">
        {answer.text === '' && answer.state === 'running' ? t('Thinking …') : t('Reasoning')}
      </summary>
      <div className="mt-2 text-[13px] text-muted">
        <Markdown text={answer.reasoning} />
      </div>
    </details>
  )
}

const toolNames: Readonly<Record<string, string>> = {
  web_search_call: 'Web search',
  mcp_call: 'Tool',
  mcp_list_tools: 'Tools of a server',
  function_call: 'Function',
}

function Tool({ tool }: { tool: ToolRun }) {
  const tone = tool.state === 'failed' ? 'bad' : tool.state === 'running' ? 'accent' : 'plain'
  return (
    <details className="mb-3 rounded-md border border-line px-3 py-1.5">
      <summary className="text-[13px]">
        {t(toolNames[tool.kind] ?? tool.kind)} <span className="font-mono">{tool.label}</span>{' '}
        <Badge tone={tone}>{t(tool.state)}</Badge>
      </summary>
      {tool.detail !== '' && (
        <pre className="mt-2 overflow-x-auto font-mono text-[12px] whitespace-pre-wrap">{tool.detail}</pre>
      )}
    </details>
  )
}

export function Sources({ of }: { of: Answer['sources'] }) {
  return (
    <section className="mt-3 text-[13px]" aria-label={t('Sources')}>
      <h3 className="text-muted">{t('Sources')}</h3>
      <ol className="list-decimal pl-5">
        {of.map(({ url, title }) => (
          <li key={url} className="break-words">
            <a className="text-accent underline" href={url} target="_blank" rel="noreferrer nofollow">
              {title}
            </a>{' '}
            <span className="text-muted">{new URL(url).hostname}</span>
          </li>
        ))}
      </ol>
    </section>
  )
}

function End({ answer }: { answer: Answer }) {
  if (answer.state === 'stopped') return <p className="mt-2 text-[13px] text-muted">{t('Stopped.')}</p>
  if (answer.state === 'cut') {
    return <p className="mt-2 text-[13px] text-warn">{t('The answer was cut: its limit was reached.')}</p>
  }
  if (answer.state !== 'failed' || answer.fault === null) return null
  const { code, message } = answer.fault
  return (
    <div role="alert" className="mt-2 rounded-md bg-bad-soft px-3 py-2">
      <p>{message}</p>
      <p className="mt-1 flex flex-wrap gap-3 text-[13px]">
        {code !== null && (
          <a
            className="font-mono text-bad underline"
            href={addressOf(`/docs/errors#${code}`)}
            target="_blank"
            rel="noreferrer"
          >
            {code}
          </a>
        )}
        {answer.requestId !== null && (
          <Link href={`/requests/${answer.requestId}`} className="underline">
            {t('Why?')}
          </Link>
        )}
      </p>
    </div>
  )
}

/** The cost of the answer, the pools that paid, and a link to the receipt. */
function Cost({ answer }: { answer: Answer }) {
  const { cost, paidBy, tokens, requestId } = answer
  if (cost === null) return null
  const pools = paidBy.map(({ pool, amount }) =>
    t('{pool}: {amount}', { pool: poolName(pool), amount: usd(amount) }),
  )
  return (
    <span className="ml-1 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted" data-testid="cost">
      {requestId === null ? (
        <span className="tabular-nums">{usdShort(cost)}</span>
      ) : (
        <Link href={`/requests/${requestId}`} className="tabular-nums underline" title={usd(cost)}>
          {usdShort(cost)}
        </Link>
      )}
      {pools.length > 0 && (
        <span title={pools.join(', ')}>{paidBy.map(({ pool }) => poolName(pool)).join(' + ')}</span>
      )}
      {tokens !== null && (
        <span className="tabular-nums">
          {count(tokens.input)} → {count(tokens.output)} {t('tokens')}
        </span>
      )}
    </span>
  )
}

// Tool calls that wait for approval: each is allowed once or denied, and the answer goes on when all are decided.

interface ApprovalsProps {
  readonly requests: readonly ApprovalRequest[]
  /** The decisions; undefined while the answer is the last turn. */
  readonly decided: readonly Approval[] | undefined
  readonly locked: boolean
  readonly onDecide: (approvals: readonly Approval[]) => void
}

function Approvals({ requests, decided, locked, onDecide }: ApprovalsProps) {
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
