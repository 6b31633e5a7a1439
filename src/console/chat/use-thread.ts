// The state of the conversation that is open: loads it, asks, stops, and keeps the account's list in step.

import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { useLocation } from 'wouter'
import { call, faultIn } from '../api/call.ts'
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

/** What is asked: a question, or that calls of tools go on or do not. */
export type Asked = Pick<Turn, 'text' | 'attachments' | 'approvals'>

const longestTitle = 60

export function useThread(id: string | undefined) {
  const [turns, setTurns] = useState<readonly Turn[]>([])
  const [loading, setLoading] = useState(id !== undefined)
  const [error, setError] = useState<unknown>(null)
  const [title, setTitle] = useState('')
  /** The conversation whose turns are here; a new one gets its id with its first question. */
  const open = useRef<string | undefined>(undefined)
  const running = useRef<AbortController | null>(null)
  const client = useQueryClient()
  const [, navigate] = useLocation()

  useEffect(() => {
    if (id === open.current && (id !== undefined || turns.length === 0)) return
    running.current?.abort()
    open.current = id
    setTurns([])
    setError(null)
    setTitle('')
    setLoading(id !== undefined)
    if (id === undefined) return
    load(id).catch((thrown: unknown) => {
      if (open.current !== id) return
      setLoading(false)
      setError(thrown)
    })
  }, [id])
  useEffect(() => () => running.current?.abort(), [])

  async function load(wanted: string) {
    const kept = await call<KeptConversation>('GET', `conversations/${encodeURIComponent(wanted)}`)
    if (open.current !== wanted) return
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
    const turn: Turn = {
      key: crypto.randomUUID(),
      text,
      attachments,
      approvals,
      answer: newAnswer(asking.model),
    }
    const asked = [...turns.slice(0, keep), turn]
    setTurns(asked)
    setError(null)
    const { answer, requestId } = await answered(turn, asked, asking, controller)
    running.current = null
    const call = requestId ?? answer.id
    if (call !== null)
      void addReceipt(turn.key, call).then(() => client.invalidateQueries({ queryKey: ['credits'] }))
    await keepPlace(asked, answer).catch(setError)
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
      const { code, message } = faultIn(thrown)
      answer = signal.aborted
        ? { ...answer, state: 'stopped' }
        : { ...answer, state: 'failed', fault: { code, message } }
    }
    cancelAnimationFrame(frame)
    show()
    return { answer, requestId }
  }

  /** Saves the conversation's last response, and creates the conversation with its first answer. */
  async function keepPlace(asked: readonly Turn[], answer: Answer) {
    if (!answer.stored || answer.id === null || answer.state === 'failed') return
    if (open.current === undefined) {
      const first = asked[0]!.text
        .replace(/[#*`>_|]+/g, '')
        .replace(/\s+/g, ' ')
        .trim()
      const name = first.length > longestTitle ? `${first.slice(0, longestTitle)}…` : first
      const made = await call<Conversation>('POST', 'conversations', {
        title: name || '…',
        model: answer.model,
      })
      open.current = made.id
      setTitle(made.title)
      navigate(`/chat/${made.id}`, { replace: true })
    }
    await noteConversation(open.current, { last_response: answer.id, model: answer.model })
    await client.invalidateQueries({ queryKey: ['conversations'] })
  }

  async function rename(name: string) {
    if (open.current === undefined) return
    await noteConversation(open.current, { title: name })
    setTitle(name)
    await client.invalidateQueries({ queryKey: ['conversations'] })
  }

  return { turns, title, rename, loading, error, send, stop: () => running.current?.abort() }
}

/** Of a long conversation, the receipts of the latest answers. */
const shownReceipts = 30

const cutShort = { code: 'stream_cut', message: 'The stream ended before the answer did.' }
