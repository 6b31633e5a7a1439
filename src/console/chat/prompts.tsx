// The prompt library: texts that an account keeps. `/` in the composer brings them.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState } from 'react'
import type { SavedPromptView } from '../../http/console/answers.ts'
import { call } from '../api/call.ts'
import { t } from '../strings/text.ts'
import { ActForm, Button, Dialog, Failure, Loading, TextArea, TextField, textOf } from '../ui/kit.tsx'

const longestName = 100
const longestText = 20_000
/** Shown at once above the composer. */
const mostShown = 8

const queryKey = ['prompts']

export function usePrompts(isWanted = true) {
  return useQuery({
    queryKey,
    queryFn: async () => (await call<{ data: readonly SavedPromptView[] }>('GET', 'prompts')).data,
    enabled: isWanted,
    staleTime: 60_000,
  })
}

/** What was typed after a `/` that begins a message, while it can still be a name; null otherwise. */
export function promptNameIn(text: string): string | null {
  return /^\/([^\n/]{0,40})$/.exec(text)?.[1] ?? null
}

/** The prompts with what was typed in their name, those that begin with it first. */
export function findPrompts(all: readonly SavedPromptView[], typed: string): readonly SavedPromptView[] {
  const q = typed.trim().toLowerCase()
  const found = all.filter(({ name }) => name.toLowerCase().includes(q))
  const begins = ({ name }: SavedPromptView) => name.toLowerCase().startsWith(q)
  return [...found.filter(begins), ...found.filter((prompt) => !begins(prompt))].slice(0, mostShown)
}

/**
 * The list above the composer: which prompts there are for its text, and at which one its keys stand. `take` gets the
 * text that is chosen.
 */
export function usePromptList(text: string, take: (text: string) => void) {
  const id = useId()
  const [at, setAt] = useState(0)
  const [dismissed, setDismissed] = useState('')
  const typed = promptNameIn(text)
  const { data } = usePrompts(typed !== null)
  const found = typed === null || dismissed === text ? [] : findPrompts(data ?? [], typed)
  const active = found[Math.min(at, found.length - 1)]
  const choose = (prompt: SavedPromptView) => {
    take(prompt.text)
    setAt(0)
  }
  /** Whether the key was the list's. */
  const onKey = (key: string): boolean => {
    if (active === undefined) return false
    const index = found.indexOf(active)
    if (key === 'ArrowDown') setAt((index + 1) % found.length)
    else if (key === 'ArrowUp') setAt((index - 1 + found.length) % found.length)
    else if (key === 'Enter' || key === 'Tab') choose(active)
    else if (key === 'Escape') setDismissed(text)
    else return false
    return true
  }
  return { id, found, active, choose, onKey }
}

interface PromptListProps {
  readonly list: ReturnType<typeof usePromptList>
}

export function PromptList({ list: { id, found, active, choose } }: PromptListProps) {
  return (
    <div className={found.length === 0 ? 'hidden' : 'mb-2 border-b border-line pb-2'}>
      <div id={id} role="listbox" aria-label={t('Saved prompts')} className="max-h-60 overflow-y-auto">
        {found.map((prompt) => (
          <button
            key={prompt.id}
            id={`${id}-${prompt.id}`}
            type="button"
            role="option"
            tabIndex={-1}
            aria-selected={prompt === active}
            // The focus stays where keys are taken.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(prompt)}
            className={`flex w-full items-baseline gap-3 rounded-md px-2 py-1 text-left ${
              prompt === active ? 'bg-accent-soft' : 'hover:bg-paper'
            }`}
          >
            <span dir="auto" className="max-w-[50%] shrink-0 truncate font-medium">
              {prompt.name}
            </span>
            <span dir="auto" className="min-w-0 flex-1 truncate text-[12.5px] text-muted">
              {prompt.text}
            </span>
          </button>
        ))}
      </div>
      <p role="status" className="sr-only">
        {found.length === 0 ? '' : t('Saved prompts: ↑ and ↓ choose, Enter takes one.')}
      </p>
    </div>
  )
}

/** A choice among the saved prompts, where there are some. */
export function PromptChoice({ onChoose }: { onChoose: (text: string) => void }) {
  const { data } = usePrompts()
  if (!data?.length) return null
  return (
    <select
      aria-label={t('Take a saved prompt')}
      value=""
      onChange={({ target }) => onChoose(data.find(({ id }) => id === target.value)?.text ?? '')}
      className="control"
    >
      <option value="">{t('Take a saved prompt')}</option>
      {data.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </select>
  )
}

interface LibraryProps {
  /** What is being written: offered as the text of a new prompt. */
  readonly written: string
  readonly onTake: (text: string) => void
}

/** The library, to be shown outside of other forms: it has its own. */
export function PromptsDialog({ onClose, ...library }: LibraryProps & { readonly onClose: () => void }) {
  return (
    <Dialog wide title={t('Saved prompts')} onClose={onClose}>
      <Library {...library} />
    </Dialog>
  )
}

function Library({ written, onTake }: LibraryProps) {
  const { data, error, isPending, refetch } = usePrompts()
  const client = useQueryClient()
  const [edited, setEdited] = useState<SavedPromptView | 'new' | null>(null)
  const listAgain = async () => {
    await client.invalidateQueries({ queryKey })
    setEdited(null)
  }
  const remove = async ({ id }: SavedPromptView) => {
    // One that is gone already is not in the list any more either.
    await call('DELETE', `prompts/${encodeURIComponent(id)}`).catch(() => undefined)
    await listAgain()
  }
  if (error) return <Failure error={error} retry={() => void refetch()} />
  if (isPending) return <Loading rows={2} />
  if (edited !== null) {
    const before = edited === 'new' ? { name: '', text: written } : edited
    return (
      <PromptForm
        before={before}
        onSave={async (prompt) => {
          if (edited === 'new') await call('POST', 'prompts', prompt)
          else await call('PATCH', `prompts/${encodeURIComponent(edited.id)}`, prompt)
          await listAgain()
        }}
        onCancel={() => setEdited(null)}
      />
    )
  }
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
      <p className="text-muted">{t('At the beginning of a message, / and a part of the name bring one.')}</p>
      {data.length > 0 && (
        <ul className="grid grid-cols-[minmax(0,1fr)] gap-1">
          {data.map((prompt) => (
            <li key={prompt.id} className="flex flex-wrap items-center gap-1 border-b border-line py-1">
              <span className="min-w-40 flex-1">
                <span dir="auto" className="block font-medium break-words">
                  {prompt.name}
                </span>
                <span dir="auto" className="block truncate text-[12.5px] text-muted">
                  {prompt.text}
                </span>
              </span>
              <Button
                small
                look="quiet"
                aria-label={t('Use {name}', { name: prompt.name })}
                onClick={() => onTake(prompt.text)}
              >
                {t('Use')}
              </Button>
              <Button
                small
                look="quiet"
                aria-label={t('Edit {name}', { name: prompt.name })}
                onClick={() => setEdited(prompt)}
              >
                {t('Edit')}
              </Button>
              <Button
                small
                look="quiet"
                aria-label={t('Delete {title}', { title: prompt.name })}
                onClick={() => void remove(prompt)}
              >
                {t('Delete')}
              </Button>
            </li>
          ))}
        </ul>
      )}
      <div>
        <Button onClick={() => setEdited('new')}>{t('New prompt')}</Button>
      </div>
    </div>
  )
}

interface PromptFormProps {
  readonly before: Pick<SavedPromptView, 'name' | 'text'>
  readonly onSave: (prompt: Pick<SavedPromptView, 'name' | 'text'>) => Promise<void>
  readonly onCancel: () => void
}

function PromptForm({ before, onSave, onCancel }: PromptFormProps) {
  const save = async (given: FormData) => {
    const [name, text] = [textOf(given, 'name'), textOf(given, 'text')]
    if (name !== undefined && text !== undefined) await onSave({ name, text })
  }
  return (
    <div className="grid gap-3">
      <ActForm onSubmit={save} action={t('Save')}>
        <TextField
          label={t('Name')}
          name="name"
          defaultValue={before.name}
          maxLength={longestName}
          required
          autoFocus
        />
        <TextArea
          label={t('Text')}
          name="text"
          rows={6}
          dir="auto"
          defaultValue={before.text}
          maxLength={longestText}
          required
        />
      </ActForm>
      <div>
        <Button look="quiet" onClick={onCancel}>
          {t('Cancel')}
        </Button>
      </div>
    </div>
  )
}
