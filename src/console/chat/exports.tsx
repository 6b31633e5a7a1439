// Exports of conversations, read: ChatGPT's, Claude's, Open WebUI's and our own. Pure; what is in them is trusted in nothing.

import { useState } from 'react'
import type { ImportedTurnView } from '../../http/console/answers.ts'
import { call, faultIn, refresh } from '../api/call.ts'
import { count, t } from '../strings/text.ts'
import { Button, Dialog, Failure, Note, useAct } from '../ui/kit.tsx'

export interface ReadConversation {
  readonly title: string
  readonly turns: readonly ImportedTurnView[]
}

export interface ReadExport {
  readonly from: string
  readonly conversations: readonly ReadConversation[]
  /** How many hold nothing that was said. */
  readonly empty: number
}

type Fields = Readonly<Record<string, unknown>>

interface Message {
  readonly role: 'user' | 'assistant'
  readonly text: string
  readonly model: string | null
}

const ownFormat = 'weir.conversation'
const longestTitle = 200
const longestModel = 200

/** Our own export. */
export function exportOf(title: string, turns: readonly ImportedTurnView[]): string {
  return `${JSON.stringify({ format: ownFormat, version: 1, title, turns }, null, 2)}\n`
}

/** Throws an error, in the reader's language, for a text that is none of these exports. */
export function readExport(text: string): ReadExport {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw new Error(t('The file is not JSON. Choose the conversations.json of the export, unpacked.'))
  }
  const all = (Array.isArray(json) ? json : [json]).map(fieldsOf)
  const first = all.find((one) => Object.keys(one).length > 0) ?? {}
  const kind = kinds.find(({ fits }) => fits(first))
  if (!kind) {
    throw new Error(t('This is no export of ChatGPT, Claude, Open WebUI or this chat. Nothing was imported.'))
  }
  const read = all.map((one) => kind.read(one)).map(({ title, turns }) => ({ title: titleIn(title), turns }))
  const conversations = read.filter(({ turns }) => turns.length > 0)
  return { from: kind.name, conversations, empty: read.length - conversations.length }
}

interface Kind {
  readonly name: string
  readonly fits: (conversation: Fields) => boolean
  readonly read: (conversation: Fields) => {
    readonly title: unknown
    readonly turns: readonly ImportedTurnView[]
  }
}

const kinds: readonly Kind[] = [
  {
    name: 'Weir',
    fits: ({ format }) => format === ownFormat,
    read: ({ title, turns }) => ({ title, turns: listOf(turns).map(ownTurn).filter(isSaid) }),
  },
  {
    name: 'ChatGPT',
    fits: ({ mapping }) => typeof mapping === 'object' && mapping !== null,
    read: ({ title, mapping, current_node: last }) => {
      const nodes = fieldsOf(mapping)
      const path = pathTo(nodes, last ?? Object.keys(nodes).at(-1), 'parent')
      return { title, turns: turnsOf(path.flatMap((node) => chatGptMessage(fieldsOf(node['message'])))) }
    },
  },
  {
    name: 'Claude',
    fits: ({ chat_messages: messages }) => Array.isArray(messages),
    read: ({ name, chat_messages: messages }) => ({
      title: name,
      turns: turnsOf(listOf(messages).flatMap(claudeMessage)),
    }),
  },
  {
    name: 'Open WebUI',
    fits: (one) => {
      const { history, messages } = fieldsOf(one['chat'] ?? one)
      return Array.isArray(messages) || typeof fieldsOf(history)['messages'] === 'object'
    },
    read: (one) => {
      const chat = fieldsOf(one['chat'] ?? one)
      const { messages, currentId } = fieldsOf(chat['history'])
      const path = pathTo(fieldsOf(messages), currentId, 'parentId')
      const said = path.length > 0 ? path : listOf(chat['messages'])
      return { title: one['title'] ?? chat['title'], turns: turnsOf(said.flatMap(openWebUiMessage)) }
    },
  },
]

function ownTurn({ question, answer, model }: Fields): ImportedTurnView {
  return { question: textOf(question), answer: textOf(answer), model: modelIn(model) }
}

function chatGptMessage({ author, content, metadata, recipient }: Fields): Message[] {
  const { content_type: type, parts } = fieldsOf(content)
  const { is_visually_hidden_from_conversation: isHidden, model_slug: model } = fieldsOf(metadata)
  if (type !== 'text' && type !== 'multimodal_text') return []
  // What is said to a tool is not said to the reader.
  if (isHidden === true || (recipient !== undefined && recipient !== 'all')) return []
  const words = Array.isArray(parts)
    ? parts.map((part) => (typeof part === 'string' ? part : pictureOf(part)))
    : []
  return messageOf(fieldsOf(author)['role'], words.filter((word) => word !== '').join('\n\n'), model)
}

/** A part that is no text: what it was is said, its content is not in the export. */
function pictureOf(part: unknown): string {
  const { text, content_type: type } = fieldsOf(part)
  if (typeof text === 'string') return text
  return type === 'image_asset_pointer' ? '[image]' : ''
}

function claudeMessage({ sender, text, content, attachments }: Fields): Message[] {
  const words = listOf(content).flatMap((part) => (part['type'] === 'text' ? [textOf(part['text'])] : []))
  const files = listOf(attachments).flatMap((file) => {
    const contents = textOf(file['extracted_content'])
    return contents === '' ? [] : [`${textOf(file['file_name']) || 'file'}:\n\n${contents}`]
  })
  const said = words.length > 0 ? words.join('\n\n') : textOf(text)
  return messageOf(sender === 'human' ? 'user' : sender, [...files, said].join('\n\n'), null)
}

function openWebUiMessage({ role, content, model }: Fields): Message[] {
  const words = Array.isArray(content)
    ? listOf(content)
        .map((part) => textOf(part['text']))
        .join('\n\n')
    : textOf(content)
  return messageOf(role, words, model)
}

function messageOf(role: unknown, text: string, model: unknown): Message[] {
  if ((role !== 'user' && role !== 'assistant') || text.trim() === '') return []
  return [{ role, text: text.trim(), model: modelIn(model) }]
}

/** Messages as turns: several of one side in a row are one. */
export function turnsOf(messages: readonly Message[]): readonly ImportedTurnView[] {
  const turns: { question: string; answer: string; model: string | null }[] = []
  const join = (before: string, text: string) => (before === '' ? text : `${before}\n\n${text}`)
  for (const { role, text, model } of messages) {
    const last = turns.at(-1)
    if (role === 'user') {
      if (last && last.answer === '') last.question = join(last.question, text)
      else turns.push({ question: text, answer: '', model: null })
    } else if (last) {
      last.answer = join(last.answer, text)
      last.model ??= model
    } else turns.push({ question: '', answer: text, model })
  }
  return turns
}

/** The nodes from the first to one, by the name of the one before. A circle ends it. */
function pathTo(nodes: Fields, last: unknown, before: 'parent' | 'parentId'): readonly Fields[] {
  const path: Fields[] = []
  const seen = new Set<unknown>()
  for (let id = last; typeof id === 'string' && Object.hasOwn(nodes, id) && !seen.has(id);) {
    seen.add(id)
    const node = fieldsOf(nodes[id])
    path.push(node)
    id = node[before]
  }
  return path.toReversed()
}

function isSaid({ question, answer }: ImportedTurnView): boolean {
  return question !== '' || answer !== ''
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : []
}

function textOf(value: unknown): string {
  // A half of a pair of characters cannot be stored.
  return typeof value === 'string' ? value.toWellFormed() : ''
}

function modelIn(value: unknown): string | null {
  const name = textOf(value).trim().slice(0, longestModel).toWellFormed()
  return name === '' ? null : name
}

function titleIn(value: unknown): string {
  const title = textOf(value).replace(/\s+/g, ' ').trim()
  return [...(title || t('Imported'))].slice(0, longestTitle / 2).join('')
}

// Conversations of other programs, taken over from their exports: read in the browser, stored one after the other.

/** Of a file, and of one conversation, as the gateway takes it. */
const mostFileBytes = 200 * 1024 ** 2
const mostConversationBytes = 1_000_000
const mostTurns = 2_000
const mostText = 400_000

interface Outcome {
  readonly from: string
  readonly stored: number
  readonly all: number
  readonly empty: number
  /** With why they were left out. */
  readonly left: readonly { readonly title: string; readonly why: string }[]
}

export function ImportButton() {
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button small look="quiet" onClick={() => setOpen(true)}>
        {t('Import')}
      </Button>
      {open && (
        <Dialog title={t('Import conversations')} onClose={() => setOpen(false)}>
          <ImportForm />
        </Dialog>
      )}
    </>
  )
}

function ImportForm() {
  const { error, busy, act } = useAct()
  const [outcome, setOutcome] = useState<Outcome | null>(null)
  const take = (file: File | undefined) =>
    void act(async () => {
      setOutcome(null)
      if (!file) return
      if (file.size > mostFileBytes)
        throw new Error(t('The file is larger than 200 MB. Nothing was imported.'))
      const { from, conversations, empty } = readExport(await file.text())
      const left: Outcome['left'][number][] = []
      let stored = 0
      const show = () => setOutcome({ from, stored, all: conversations.length, empty, left: [...left] })
      // The latest comes first in an export: it is stored last, and stands first in the list.
      for (const conversation of conversations.toReversed()) {
        const { title, turns } = conversation
        const isLong =
          turns.length > mostTurns ||
          turns.some(({ question, answer }) => Math.max(question.length, answer.length) > mostText)
        if (isLong || new Blob([JSON.stringify(conversation)]).size > mostConversationBytes)
          left.push({ title, why: t('It is larger than 1 MB.') })
        else {
          try {
            await call('POST', 'imported-conversations', { ...conversation, folder: from })
            stored++
          } catch (thrown) {
            const { status, message } = faultIn(thrown)
            // A refusal is of this one; without an answer the next would get none either.
            if (status === 0 || status >= 500 || status === 401) {
              show()
              throw thrown
            }
            left.push({ title, why: message })
          }
        }
        show()
      }
      show()
      await refresh('conversations')
    })
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
      <p className="text-muted">
        {t(
          'From ChatGPT or Claude (conversations.json of the export), Open WebUI (its export of chats) or this chat (JSON). Texts are taken over, files are not. They lie in a folder with the name of their origin.',
        )}
      </p>
      <input
        type="file"
        accept="application/json,.json"
        aria-label={t('File of the export')}
        className="file:mr-3 file:h-9 file:rounded-md file:border file:border-line-strong file:bg-panel file:px-3 file:font-medium"
        disabled={busy}
        onChange={({ target }) => {
          take(target.files?.[0])
          target.value = ''
        }}
      />
      {error !== null && <Failure error={error} />}
      {outcome && (
        <Note role="status" tone={busy ? 'plain' : 'good'}>
          {t('{from}: {stored} of {all} conversations are imported.', {
            from: outcome.from,
            stored: count(outcome.stored),
            all: count(outcome.all),
          })}{' '}
          {outcome.empty > 0 && t('{count} hold nothing that was said.', { count: count(outcome.empty) })}
        </Note>
      )}
      {outcome && outcome.left.length > 0 && (
        <ul aria-label={t('Left out')} className="max-h-48 overflow-y-auto text-[13px]" tabIndex={0}>
          {outcome.left.map(({ title, why }, index) => (
            <li key={index} dir="auto" className="break-words">
              {title}: <span className="text-muted">{why}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
