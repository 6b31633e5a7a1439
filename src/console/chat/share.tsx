// A conversation that others see by a link: made and revoked by whose it is, and the page that they see.

import { useEffect, useState } from 'react'
import type { SettledConversationView, SharedConversationView } from '../../http/console/answers.ts'
import { useAnswer } from '../api/call.ts'
import { moment, t } from '../strings/text.ts'
import { Button, Code, Dialog, Failure, Loading, Logo, TimeIn, useAct } from '../ui/kit.tsx'
import { Markdown } from './markdown.tsx'
import { Sources } from './turn-view.tsx'

interface ShareButtonProps {
  readonly share: SettledConversationView['share']
  /** Makes the link, or revokes it. */
  readonly onChange: (method: 'POST' | 'DELETE') => Promise<void>
}

export function ShareButton({ share, onChange }: ShareButtonProps) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button small look="quiet" onClick={() => setOpen(true)}>
        {share ? t('Shared') : t('Share')}
      </Button>
      {open && (
        <Dialog title={t('Share by a link')} onClose={() => setOpen(false)}>
          <ShareForm share={share} onChange={onChange} />
        </Dialog>
      )}
    </>
  )
}

function ShareForm({ share, onChange }: ShareButtonProps) {
  const { error, busy, act } = useAct()
  const change = (method: 'POST' | 'DELETE') => void act(() => onChange(method))
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
      <p>
        {t(
          'Whoever has the link can read the questions and answers, without an account. Instructions, reasoning, tools, the contents of files, costs and your name are not shown.',
        )}
      </p>
      {share && (
        <>
          <Code text={share.url} label={t('The link')} />
          <p className="text-muted">
            <TimeIn sentence={t('It shows the conversation as it was {time}.')} at={share.created_at} />
          </p>
        </>
      )}
      {error !== null && <Failure error={error} />}
      <div className="flex flex-wrap gap-2">
        <Button look={share ? 'plain' : 'primary'} busy={busy} onClick={() => change('POST')}>
          {share ? t('Show it as it is now') : t('Make a link')}
        </Button>
        {share && (
          <Button look="danger" busy={busy} onClick={() => change('DELETE')}>
            {t('Revoke the link')}
          </Button>
        )}
      </div>
    </div>
  )
}

/** What whoever has a link sees; it needs no session. */
export function SharedPage({ token }: { token: string }) {
  const { data, error, refetch } = useAnswer<SharedConversationView>(
    ['shared', token],
    `shared/${encodeURIComponent(token)}`,
  )
  useEffect(() => {
    document.title = data ? `${data.title} · Weir` : 'Weir'
  }, [data])
  return (
    <main className="mx-auto max-w-3xl px-4 py-8">
      <p className="mb-5 flex items-center gap-2.5 text-muted">
        <Logo />
        {t('A shared conversation')}
      </p>
      {error !== null && <Failure error={error} retry={() => void refetch()} />}
      {!data && error === null && <Loading />}
      {data && (
        <>
          <h1 dir="auto" className="text-xl font-semibold break-words">
            {data.title}
          </h1>
          <p className="mt-1 mb-6 text-[13px] text-muted">
            {t('As it was on {date}. Models make mistakes.', { date: moment(data.shared_at) })}
          </p>
          {data.turns.map((turn, index) => (
            <SharedTurn key={index} turn={turn} />
          ))}
        </>
      )}
    </main>
  )
}

function SharedTurn({ turn }: { turn: SharedConversationView['turns'][number] }) {
  return (
    <article className="mb-8">
      {(turn.question !== '' || turn.files.length > 0) && (
        <div className="mb-4 flex flex-col items-end">
          <h2 className="sr-only">{t('Question')}</h2>
          {turn.files.length > 0 && (
            <ul className="mb-1 flex flex-wrap justify-end gap-2">
              {turn.files.map((name, index) => (
                <li key={index} className="card px-2 py-1 text-[12.5px]">
                  {name}
                </li>
              ))}
            </ul>
          )}
          {turn.question !== '' && (
            <p
              dir="auto"
              className="max-w-[85%] rounded-lg bg-accent-soft px-3.5 py-2 break-words whitespace-pre-wrap"
            >
              {turn.question}
            </p>
          )}
        </div>
      )}
      <h2 className="mb-1 font-mono text-[12px] text-muted">{turn.model}</h2>
      <Markdown text={turn.answer} />
      {turn.sources.length > 0 && <Sources of={turn.sources} />}
    </article>
  )
}
