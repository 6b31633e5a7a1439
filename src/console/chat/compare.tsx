// Two models side by side: one question, two answers. Each is a conversation of its own, charged and stored like any other.

import { useEffect, useRef, useState } from 'react'
import { Link, useLocation, useSearchParams } from 'wouter'
import type { ModelView } from '../../http/console/answers.ts'
import { useModels } from '../api/call.ts'
import { t } from '../strings/text.ts'
import { Failure, Loading } from '../ui/kit.tsx'
import { isTextList, useRemembered } from '../ui/remembered.ts'
import { Composer } from './composer.tsx'
import { PoolMeter, useStuckToEnd } from './conversation-frame.tsx'
import { AskWith } from './conversation-settings.tsx'
import { comparedModels, ModelPicker } from './model-picker.tsx'
import { type AskedTurn, useOwnThread } from './open-thread.ts'
import { TurnView } from './turn-view.tsx'

type Side = 'a' | 'b'
type SideThread = ReturnType<typeof useOwnThread>

const none: readonly string[] = []

export function Compare() {
  const [query] = useSearchParams()
  const [, navigate] = useLocation()
  const onBegun = (side: Side) => (id: string) => {
    // Of the address as it is now: both may begin in one frame.
    const next = new URLSearchParams(location.search)
    next.set(side, id)
    navigate(`/chat/compare?${next}`, { replace: true })
  }
  const a = useOwnThread(query.get('a') ?? undefined, onBegun('a'))
  const b = useOwnThread(query.get('b') ?? undefined, onBegun('b'))
  const { data: models, refetch } = useModels()
  const [ids, setIds] = useRemembered('weir.compared-models', none, isTextList)
  const picked = comparedModels(models ?? [], ids)
  const pick = (side: Side, id: string) =>
    setIds(side === 'a' ? [id, picked.b?.id ?? ''] : [picked.a?.id ?? '', id])
  const [searches, setSearches] = useState(false)
  const field = useRef<HTMLTextAreaElement>(null)
  const write = () => field.current?.focus({ preventScroll: true })
  useEffect(() => {
    if (!matchMedia('(pointer: coarse)').matches) write()
  }, [a.thread])
  const isRunning = ({ turns }: SideThread) => turns.at(-1)?.answer.state === 'running'
  const busy = isRunning(a) || isRunning(b)
  const ready = picked.a !== undefined && picked.b !== undefined
  const ask = (side: SideThread, model: ModelView, keep: number, asked: AskedTurn) => {
    const asking = { model: model.id, reasons: model.reasoning, searches, servers: none, isCompared: true }
    void side.thread.send(keep, asked, asking)
  }
  const send = async (text: string, attachments: AskedTurn['attachments']): Promise<boolean> => {
    // A question may be sent before the models are known.
    const known = models ?? (await refetch({ cancelRefetch: false })).data ?? []
    const both = comparedModels(known, ids)
    if (!both.a || !both.b) return false
    const asked = { text, attachments, approvals: [] }
    ask(a, both.a, a.turns.length, asked)
    ask(b, both.b, b.turns.length, asked)
    return true
  }
  return (
    <div className="flex h-[calc(100dvh-3.3rem)] flex-col lg:h-dvh">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1 border-b border-line px-3 py-2">
        <h1 className="min-w-0 flex-1 truncate font-medium">{t('Two models side by side')}</h1>
        <AskWith
          settings={a.settings}
          reasons={(picked.a?.reasoning ?? false) || (picked.b?.reasoning ?? false)}
          onSettings={async (settings) => {
            await Promise.all([a.thread.askWith(settings), b.thread.askWith(settings)])
          }}
        />
        <Link
          href="/chat"
          className="inline-flex h-7 items-center rounded-md px-2 text-[13px] font-medium text-accent hover:bg-accent-soft"
        >
          {t('One model')}
        </Link>
      </div>
      <div className="grid min-h-0 flex-1 grid-cols-1 overflow-y-auto md:grid-cols-2 md:overflow-hidden">
        {(['a', 'b'] as const).map((side) => (
          <Pane
            key={side}
            side={side === 'a' ? a : b}
            label={side === 'a' ? t('First model') : t('Second model')}
            models={models}
            picked={picked[side]}
            locked={busy || !ready}
            onPick={(id) => pick(side, id)}
            onPicked={write}
            onAgain={(index, asked) => {
              const model = picked[side]
              if (model) ask(side === 'a' ? a : b, model, index, asked)
            }}
          />
        ))}
      </div>
      <div className="border-t border-line">
        <div className="mx-auto max-w-3xl px-4 py-3">
          <Composer
            field={field}
            draft={null}
            busy={busy}
            ready={models === undefined || ready}
            searches={searches}
            onSearches={setSearches}
            servers={none}
            onServers={() => undefined}
            takesServers={false}
            onCancel={() => undefined}
            onStop={() => {
              a.thread.stop()
              b.thread.stop()
            }}
            onSend={send}
          />
          <PoolMeter />
        </div>
      </div>
    </div>
  )
}

interface PaneProps {
  readonly side: SideThread
  readonly label: string
  readonly models: readonly ModelView[] | undefined
  readonly picked: ModelView | undefined
  readonly locked: boolean
  readonly onPick: (id: string) => void
  readonly onPicked: () => void
  readonly onAgain: (index: number, asked: AskedTurn) => void
}

function Pane({ side, label, models, picked, locked, onPick, onPicked, onAgain }: PaneProps) {
  const { id, turns, loading, error } = side
  const end = useStuckToEnd(turns)
  return (
    <section
      aria-label={label}
      className="flex min-h-0 min-w-0 flex-col border-line max-md:border-b md:not-first:border-l"
    >
      <div className="flex items-center gap-2 border-b border-line px-3 py-1.5">
        <ModelPicker models={models} picked={picked} onPick={onPick} onPicked={onPicked} />
        <span className="flex-1" />
        {id !== undefined && turns.length > 0 && (
          <Link href={`/chat/${id}`} className="shrink-0 text-[13px] text-accent underline">
            {t('Go on with this one')}
          </Link>
        )}
      </div>
      <div
        ref={end.box}
        onScroll={end.onScroll}
        className="flex-1 px-4 py-4 md:overflow-y-auto"
        tabIndex={0}
        role="region"
        aria-label={t('Answers of {model}', { model: picked?.id ?? label })}
      >
        {loading && <Loading rows={2} />}
        {error !== null && <Failure error={error} />}
        {!loading && turns.length === 0 && error === null && (
          <p className="py-8 text-center text-muted">
            {t('One question, two answers. Each is charged, and shows what it cost.')}
          </p>
        )}
        {turns.map((turn, index) => (
          <TurnView
            key={turn.key}
            turn={turn}
            locked={locked}
            decided={[]}
            onAgain={() => onAgain(index, turn)}
          />
        ))}
      </div>
    </section>
  )
}
