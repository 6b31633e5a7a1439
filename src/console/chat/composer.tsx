// The input for a question, with images and files.

import {
  type ClipboardEvent,
  type KeyboardEvent,
  type RefObject,
  useEffect,
  useId,
  useImperativeHandle,
  useRef,
  useState,
} from 'react'
import type { SavedPromptView } from '../../http/console/answers.ts'
import { call, queryClient, refresh, useData, useMcpServers } from '../api/call.ts'
import { t } from '../strings/text.ts'
import {
  ActForm,
  Badge,
  Button,
  Dialog,
  Failure,
  Loading,
  RowButton,
  TextArea,
  TextField,
  TextLink,
  textOf,
} from '../ui/kit.tsx'
import type { Attachment } from './thread.ts'

// The prompt library: texts that an account keeps. `/` in the composer brings them.

const longestName = 100
const longestText = 20_000
/** Shown at once above the composer. */
const mostShown = 8

const promptsKey = ['prompts']

export function usePrompts(isWanted = true) {
  return useData<readonly SavedPromptView[]>(promptsKey, 'prompts', { enabled: isWanted, staleTime: 60_000 })
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
function usePromptList(text: string, take: (text: string) => void) {
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

function PromptList({ list: { id, found, active, choose } }: PromptListProps) {
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
function PromptsDialog({ onClose, ...library }: LibraryProps & { readonly onClose: () => void }) {
  return (
    <Dialog wide title={t('Saved prompts')} onClose={onClose}>
      <Library {...library} />
    </Dialog>
  )
}

function Library({ written, onTake }: LibraryProps) {
  const { data, error, isPending, refetch } = usePrompts()
  const [edited, setEdited] = useState<SavedPromptView | 'new' | null>(null)
  const listAgain = async () => {
    await refresh(...promptsKey)
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
              <RowButton label={t('Use {name}', { name: prompt.name })} onClick={() => onTake(prompt.text)}>
                {t('Use')}
              </RowButton>
              <RowButton label={t('Edit {name}', { name: prompt.name })} onClick={() => setEdited(prompt)}>
                {t('Edit')}
              </RowButton>
              <RowButton
                label={t('Delete {title}', { title: prompt.name })}
                onClick={() => void remove(prompt)}
              >
                {t('Delete')}
              </RowButton>
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

interface ComposerProps {
  /** Set to where the question is written. */
  readonly field: RefObject<HTMLTextAreaElement | null>
  /** The question that is being edited. */
  readonly draft: { readonly text: string; readonly attachments: readonly Attachment[] } | null
  readonly busy: boolean
  readonly ready: boolean
  /** Whether the next answers may search the web. */
  readonly searches: boolean
  readonly onSearches: (searches: boolean) => void
  /** The MCP servers whose tools they may use. */
  readonly servers: readonly string[]
  readonly onServers: (names: readonly string[]) => void
  /** Whether tools of servers can be used: a call that waits for permission has to be stored. */
  readonly takesServers: boolean
  /** Resolves with whether it was sent. */
  readonly onSend: (text: string, attachments: readonly Attachment[]) => Promise<boolean>
  readonly onStop: () => void
  readonly onCancel: () => void
}

export function Composer({
  field,
  draft,
  busy,
  ready,
  searches,
  onSearches,
  servers,
  onServers,
  takesServers,
  onSend,
  onStop,
  onCancel,
}: ComposerProps) {
  const [first] = useState(() => draft ?? unsentQuestion())
  const [text, setText] = useState(first.text)
  const [attachments, setAttachments] = useState(first.attachments)
  const latest = useRef(attachments)
  const sending = useRef(false)
  const [refused, setRefused] = useState('')
  const box = useRef<HTMLTextAreaElement>(null)
  useImperativeHandle(field, () => box.current!)
  const picker = useId()
  useEffect(() => {
    // As high as its text, up to its own limit.
    box.current!.style.height = 'auto'
    box.current!.style.height = `${box.current!.scrollHeight + 2}px`
  }, [text])
  useEffect(() => {
    if (draft !== null) box.current!.focus()
  }, [draft])
  useEffect(() => {
    if (draft === null) keepUnsent({ text, attachments })
  }, [draft, text, attachments])
  const keep = (all: readonly Attachment[]) => {
    latest.current = all
    setAttachments(all)
  }
  const add = async (files: Iterable<File>) => {
    const given = [...files]
    const large = () => setRefused(t('The files are larger than a request may be.'))
    // Before they are read: a file may be larger than the memory.
    if (given.reduce((sum, { size }) => sum + size, 0) > mostCharacters) return large()
    try {
      const read = await Promise.all(given.map(readAttachment))
      // Other files may have been added, or the question sent, since reading began.
      const all = [...latest.current, ...read]
      if (tooLarge(all)) return large()
      setRefused('')
      keep(all)
    } catch {
      setRefused(t('A file cannot be read. A folder cannot be attached.'))
    }
  }
  useEffect(() => {
    // Anywhere in the page: a browser opens a file in its place that is dropped beside the form.
    const onDrag = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      if (event.type === 'drop') void add(event.dataTransfer.files)
    }
    for (const type of ['dragover', 'drop'] as const) document.addEventListener(type, onDrag)
    return () => {
      for (const type of ['dragover', 'drop'] as const) document.removeEventListener(type, onDrag)
    }
  }, [])
  const send = async () => {
    if (busy || !ready || sending.current || (text.trim() === '' && attachments.length === 0)) return
    sending.current = true
    const isSent = await onSend(text.trim(), attachments).finally(() => (sending.current = false))
    setRefused(isSent ? '' : t('The models cannot be loaded, so nothing was sent. Try again.'))
    if (!isSent) return
    // What was typed or added meanwhile stays.
    setText((now) => (now === text ? '' : now))
    keep(latest.current.filter((file) => !attachments.includes(file)))
  }
  const [library, setLibrary] = useState(false)
  const takePrompt = (prompt: string) => {
    setText(prompt)
    setLibrary(false)
    box.current?.focus()
  }
  const prompts = usePromptList(text, takePrompt)
  const onKey = (event: KeyboardEvent) => {
    if (!event.nativeEvent.isComposing && !event.shiftKey && prompts.onKey(event.key)) {
      event.preventDefault()
      return
    }
    if (event.key === 'Escape' && busy) onStop()
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    void send()
  }
  const onPaste = ({ clipboardData }: ClipboardEvent) => {
    if (clipboardData.files.length > 0) void add(clipboardData.files)
  }
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void send()
        }}
        className="rounded-lg border border-line-strong bg-panel p-2"
      >
        {attachments.length > 0 && (
          <ul className="mb-2 flex flex-wrap gap-2">
            {attachments.map(({ name, type, data }, index) => (
              <li key={index} className="card flex items-center gap-1.5 py-0.5 pl-2 text-[12.5px]">
                {type.startsWith('image/') && (
                  <img src={data} alt="" className="size-6 rounded object-cover" />
                )}
                <span className="max-w-40 truncate">{name}</span>
                <RowButton
                  label={t('Remove {name}', { name })}
                  onClick={() => keep(attachments.filter((_, other) => other !== index))}
                >
                  ✕
                </RowButton>
              </li>
            ))}
          </ul>
        )}
        <PromptList list={prompts} />
        <textarea
          ref={box}
          aria-autocomplete="list"
          aria-controls={prompts.id}
          aria-activedescendant={prompts.active && `${prompts.id}-${prompts.active.id}`}
          rows={1}
          dir="auto"
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKey}
          onPaste={onPaste}
          aria-label={t('Message')}
          placeholder={t('Write a message')}
          className="block max-h-60 w-full resize-none bg-transparent px-1.5 py-1 outline-none"
        />
        {refused !== '' && (
          <p role="alert" className="px-1.5 text-[12.5px] text-bad">
            {refused}
          </p>
        )}
        <div className="mt-1 flex flex-wrap items-center gap-2">
          <label
            htmlFor={picker}
            className="inline-flex h-7 cursor-pointer items-center rounded-md px-2 text-[13px] font-medium text-accent focus-within:outline-2 hover:bg-accent-soft"
          >
            {t('Attach')}
            <input
              id={picker}
              type="file"
              multiple
              className="sr-only"
              onChange={(event) => {
                void add([...(event.target.files ?? [])])
                event.target.value = ''
              }}
            />
          </label>
          <button
            type="button"
            aria-pressed={searches}
            onClick={() => onSearches(!searches)}
            className={`inline-flex h-7 items-center rounded-md px-2 text-[13px] font-medium ${
              searches ? 'bg-accent text-accent-ink' : 'text-accent hover:bg-accent-soft'
            }`}
          >
            {t('Search the web')}
          </button>
          {takesServers && <Servers chosen={servers} onChoose={onServers} />}
          <button
            type="button"
            aria-expanded={library}
            onClick={() => setLibrary(true)}
            className="inline-flex h-7 items-center rounded-md px-2 text-[13px] font-medium text-accent hover:bg-accent-soft"
          >
            {t('Prompts')}
          </button>
          <span className="ml-auto flex gap-2">
            {draft !== null && (
              <Button small onClick={onCancel}>
                {t('Cancel')}
              </Button>
            )}
            {busy ? (
              <Button small look="danger" onClick={onStop}>
                {t('Stop')}
              </Button>
            ) : (
              <Button small type="submit" look="primary" disabled={!ready}>
                {draft === null ? t('Send') : t('Ask again')}
              </Button>
            )}
          </span>
        </div>
      </form>
      {library && (
        <PromptsDialog
          written={promptNameIn(text) === null ? text : ''}
          onTake={takePrompt}
          onClose={() => setLibrary(false)}
        />
      )}
    </>
  )
}

// Files as parts of a question.

/** Requests are limited to 10 MiB by default, including the overhead of base64 and JSON. */
const mostCharacters = 9_000_000

function tooLarge(attachments: readonly Attachment[]): boolean {
  return attachments.reduce((sum, { data }) => sum + data.length, 0) > mostCharacters
}

const plainText = /^text\/|json|xml|yaml|javascript|typescript|toml|csv|x-sh|sql/
const plainName =
  /\.(?:md|txt|csv|json|ya?ml|toml|xml|html?|css|[cm]?[jt]sx?|py|rb|go|rs|java|kt|c|h|cpp|cs|sh|sql|log|ini)$/i

/** Plain text is sent as text, which every model reads; everything else as a data URL. */
async function readAttachment(file: File): Promise<Attachment> {
  const { name, type } = file
  if (plainText.test(type) || plainName.test(name))
    return { name, type: 'text/plain', data: await file.text() }
  return { name, type: type || 'application/octet-stream', data: await dataUrlOf(file) }
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener('load', () => resolve(String(reader.result)))
    reader.addEventListener('error', () => reject(reader.error ?? new Error(t('The file cannot be read.'))))
    reader.readAsDataURL(file)
  })
}

// What has been typed and attached, and not been sent: it is there again after a look at another page of the console, or
// when an earlier question has been edited. In the cache, which an account leaves with all that is its own.

interface UnsentQuestion {
  readonly text: string
  readonly attachments: readonly Attachment[]
}

const queryKey = ['unsent-question']
queryClient.setQueryDefaults(queryKey, { gcTime: Infinity })

function unsentQuestion(): UnsentQuestion {
  return queryClient.getQueryData<UnsentQuestion>(queryKey) ?? { text: '', attachments: [] }
}

function keepUnsent(question: UnsentQuestion): void {
  queryClient.setQueryData(queryKey, question)
}

// The registered MCP servers whose tools the next answers may use.

interface ServersProps {
  readonly chosen: readonly string[]
  readonly onChoose: (names: readonly string[]) => void
}

function Servers({ chosen, onChoose }: ServersProps) {
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
          <ServerChoices chosen={chosen} onChoose={onChoose} />
        </Dialog>
      )}
    </>
  )
}

function ServerChoices({ chosen, onChoose }: ServersProps) {
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
        <TextLink href="/mcp">{t('Servers and their tools')}</TextLink>
      </p>
    </div>
  )
}
