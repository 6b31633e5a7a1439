// The state of the conversation that is open: loads it, asks, stops, and keeps the account's list in step.

import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { useLocation } from 'wouter'
import { call, CallError } from '../api/call.ts'
import { newId } from '../api/new-id.ts'
import { useConversations } from '../api/queries.ts'
import type { Conversation } from '../api/wire.ts'
import { ask, noteConversation, settledReceipt } from './ask.ts'
import {
  after,
  type Answer,
  type Item,
  keptTurn,
  newAnswer,
  requestFor,
  type ResponseObject,
  type Turn,
} from './thread.ts'

interface KeptConversation extends Conversation {
  readonly turns: readonly { readonly response: ResponseObject; readonly input: readonly Item[] }[]
}

export interface Asking {
  readonly model: string
  readonly reasons: boolean
  readonly searches: boolean
  readonly servers: readonly string[]
}

/** A conversation while it is open; a new one gets its id with its first answer. */
interface Place {
  id: string | undefined
  /** As it was last loaded or saved here. */
  known?: Pick<Conversation, 'last_response' | 'updated_at'>
}

/** What is asked: a question, or that calls of tools go on or do not. */
export type Asked = Pick<Turn, 'text' | 'attachments' | 'approvals'>

const longestTitle = 60

export function useThread(id: string | undefined) {
  const [turns, setTurns] = useState<readonly Turn[]>([])
  const [loading, setLoading] = useState(id !== undefined)
  const [error, setError] = useState<unknown>(null)
  const [title, setTitle] = useState('')
  const open = useRef<Place>({ id: undefined })
  const running = useRef<AbortController | null>(null)
  const client = useQueryClient()
  const { data: conversations } = useConversations()
  const [, navigate] = useLocation()

  useEffect(() => {
    if (id === open.current.id && (id !== undefined || turns.length === 0)) return
    const place = leaveFor(id)
    setTurns([])
    setError(null)
    setTitle('')
    setLoading(id !== undefined)
    if (id === undefined) return
    load(place, id).catch((thrown: unknown) => {
      if (open.current !== place) return
      setLoading(false)
      setError(thrown)
    })
  }, [id])
  useEffect(() => () => void leaveFor(undefined), [])

  // Another tab may have continued the conversation: a question here would replace what was said there.
  useEffect(() => {
    const place = open.current
    const listed = conversations?.find((conversation) => conversation.id === place.id)
    if (!listed || !place.known || running.current) return
    const isNewer = listed.updated_at > place.known.updated_at
    if (isNewer && listed.last_response !== place.known.last_response)
      load(place, listed.id).catch(() => undefined)
  }, [conversations])

  /** Stops the answer that is being written, and opens another conversation in its place. */
  function leaveFor(wanted: string | undefined): Place {
    running.current?.abort()
    running.current = null
    open.current = { id: wanted }
    return open.current
  }

  /** Leaves a conversation that has no address yet; one that has is left by going to another address. */
  function startAnew() {
    if (id !== undefined) return
    leaveFor(undefined)
    setTurns([])
    setError(null)
    setTitle('')
  }

  async function load(place: Place, wanted: string) {
    const kept = await call<KeptConversation>('GET', `conversations/${encodeURIComponent(wanted)}`)
    if (open.current !== place) return
    place.known = kept
    const loaded = kept.turns.map(({ response, input }) => keptTurn(response, input))
    setTitle(kept.title)
    setTurns(loaded)
    setLoading(false)
    // What each answer cost is in the books, not in the answers.
    for (const turn of loaded.slice(-shownReceipts)) void addReceipt(turn.key, turn.answer.id!)
  }

  const change = (key: string, by: (answer: Answer) => Answer) =>
    setTurns((all) => all.map((turn) => (turn.key === key ? { ...turn, answer: by(turn.answer) } : turn)))

  async function addReceipt(key: string, call: string) {
    const receipt = await settledReceipt(call)
    if (receipt === undefined) return
    change(key, (answer) => ({
      ...answer,
      cost: receipt.charged,
      paidBy: receipt.drawn.map(({ pool, amount }) => ({ pool, amount })),
      requestId: receipt.id,
    }))
  }

  /** Asks after the first `keep` turns; later turns are dropped. */
  async function send(keep: number, { text, attachments, approvals }: Asked, asking: Asking) {
    if (running.current) return
    const controller = new AbortController()
    running.current = controller
    const place = open.current
    const turn: Turn = {
      key: newId(),
      text,
      attachments,
      approvals,
      answer: newAnswer(asking.model),
    }
    const asked = [...turns.slice(0, keep), turn]
    setTurns(asked)
    setError(null)
    const { answer, requestId } = await answered(turn, asked, asking, controller)
    if (running.current === controller) running.current = null
    const call = requestId ?? answer.id
    if (call !== null)
      void addReceipt(turn.key, call).then(() => client.invalidateQueries({ queryKey: ['credits'] }))
    await keepPlace(place, asked, answer).catch((thrown: unknown) => {
      if (open.current === place) setError(thrown)
    })
  }

  async function answered(turn: Turn, asked: readonly Turn[], asking: Asking, { signal }: AbortController) {
    let answer = turn.answer
    let requestId: string | null = null
    let frame = 0
    const show = () => {
      frame = 0
      change(turn.key, () => answer)
    }
    try {
      const question = { ...asking, ...requestFor(asked) }
      for await (const event of ask(question, signal, (given) => (requestId = given))) {
        answer = after(answer, event)
        // A reader sees frames, not tokens.
        if (frame === 0) frame = requestAnimationFrame(show)
      }
      if (answer.state === 'running') answer = { ...answer, state: 'failed', fault: cutShort }
    } catch (thrown) {
      // An answer that had ended is whole, however its connection ends.
      if (answer.state === 'running')
        answer = signal.aborted
          ? { ...answer, state: 'stopped' }
          : { ...answer, state: 'failed', fault: faultOf(thrown), requestId: requestIdOf(thrown) }
    }
    cancelAnimationFrame(frame)
    show()
    return { answer, requestId }
  }

  /**
   * Saves the conversation's last response, and creates the conversation with its first answer. Meanwhile another one may
   * have been opened, which stays as it is.
   */
  async function keepPlace(place: Place, asked: readonly Turn[], answer: Answer) {
    if (!answer.stored || answer.id === null || answer.state === 'failed') return
    if (place.id === undefined) {
      const first = asked[0]!.text
        .replace(/[#*`>_|]+/g, '')
        .replace(/\s+/g, ' ')
        .trim()
      const name = first.length > longestTitle ? `${first.slice(0, longestTitle)}…` : first
      const made = await call<Conversation>('POST', 'conversations', {
        title: name || '…',
        model: answer.model,
      })
      place.id = made.id
      if (open.current === place) {
        setTitle(made.title)
        navigate(`/chat/${made.id}`, { replace: true })
      }
    }
    place.known = await noteConversation(place.id, { last_response: answer.id, model: answer.model })
    await client.invalidateQueries({ queryKey: ['conversations'] })
  }

  async function rename(name: string) {
    const place = open.current
    if (place.id === undefined) return
    await noteConversation(place.id, { title: name })
    if (open.current === place) setTitle(name)
    await client.invalidateQueries({ queryKey: ['conversations'] })
  }

  return { turns, title, rename, loading, error, send, startAnew, stop: () => running.current?.abort() }
}

/** Of a long conversation, the receipts of the latest answers. */
const shownReceipts = 30

/** Not a refusal of the gateway, so the error reference has no code of it. */
const cutShort = {
  code: null,
  message: 'The connection to the gateway broke off before the answer was complete.',
}

/** Of a call that was refused or failed before its answer began. */
function requestIdOf(thrown: unknown): string | null {
  const id = thrown instanceof CallError ? thrown.fault.metadata['request_id'] : undefined
  return typeof id === 'string' ? id : null
}

function faultOf(thrown: unknown): NonNullable<Answer['fault']> {
  if (!(thrown instanceof CallError)) return cutShort
  const { status, code, message } = thrown.fault
  return { code: status === 0 ? null : code, message }
}
