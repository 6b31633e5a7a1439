// What a conversation is called, where it lies in the list, and what its questions are asked with.

import { useEffect, useRef, useState } from 'react'
import type { ChatSettings, ConversationView } from '../../http/console/answers.ts'
import { useConversations, useCredits } from '../api/call.ts'
import { appOrder, poolBars, poolNames } from '../pages/words.tsx'
import { t, usd, usdShort } from '../strings/text.ts'
import { ActForm, Button, Choice, Dialog, TextArea, TextField, textOf } from '../ui/kit.tsx'
import { PromptChoice } from './composer.tsx'

// What stands around conversations, one or two of them: the end that stays in sight, and the credit.

/** Keeps the end of the conversation visible while an answer grows, unless the user has scrolled up. */
export function useStuckToEnd(turns: readonly unknown[]) {
  const box = useRef<HTMLDivElement>(null)
  const stuck = useRef(true)
  const count = useRef(0)
  useEffect(() => {
    if (turns.length !== count.current) stuck.current = true
    count.current = turns.length
    if (stuck.current && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [turns])
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!
    stuck.current = scrollHeight - scrollTop - clientHeight < 60
  }
  return { box, onScroll }
}

/** The pools in the order in which a chat spends them, with widths by their credit. */
export function PoolMeter() {
  const { data: credits } = useCredits()
  if (!credits) return <p className="mt-2 h-4" />
  const pools = appOrder.flatMap((type) =>
    credits.pools.filter((pool) => pool.type === type && Number(pool.remaining) > 0),
  )
  if (pools.length === 0)
    return <p className="mt-2 text-[12px] text-warn">{t('There is no credit for a chat now.')}</p>
  // By the square root: otherwise twenty cents would be invisible beside a hundred dollars.
  const widths = pools.map(({ remaining }) => Math.sqrt(Number(remaining)))
  const sum = widths.reduce((total, width) => total + width, 0)
  return (
    <div className="mt-2">
      <div className="flex h-1.5 gap-px overflow-hidden rounded-full" aria-hidden="true">
        {pools.map(({ type }, index) => (
          <div key={type} className={poolBars[type]} style={{ width: `${(widths[index]! / sum) * 100}%` }} />
        ))}
      </div>
      <ul className="mt-1 flex flex-wrap gap-x-3 text-[12px] text-muted" aria-label={t('Credit for chats')}>
        {pools.map(({ type, remaining }) => (
          <li key={type} className="flex items-center gap-1.5" title={usd(remaining)}>
            <span className={`size-2 rounded-sm ${poolBars[type]}`} aria-hidden="true" />
            {t(poolNames[type])} <span className="tabular-nums">{usdShort(remaining)}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}

const longestTitle = 200
const longestFolder = 60
const longestInstructions = 20_000

export interface Arrangement extends Pick<ConversationView, 'folder' | 'pinned'> {
  readonly title: string
}

interface ArrangeProps {
  readonly conversation: Arrangement
  readonly onArrange: (arrangement: Arrangement) => Promise<void>
}

/** Title, folder and pin of the open conversation. */
export function Arrange({ conversation, onArrange }: ArrangeProps) {
  const [open, setOpen] = useState(false)
  const { data } = useConversations()
  const folders = [...new Set((data ?? []).flatMap(({ folder }) => folder ?? []))].toSorted()
  const save = async (given: FormData) => {
    const title = textOf(given, 'title')
    if (title === undefined) return
    await onArrange({
      title,
      folder: textOf(given, 'folder') ?? null,
      pinned: given.get('pinned') !== null,
    })
    setOpen(false)
  }
  return (
    <>
      <Button small look="quiet" onClick={() => setOpen(true)}>
        {t('Rename')}
      </Button>
      {open && (
        <Dialog title={t('This conversation')} onClose={() => setOpen(false)}>
          <ActForm onSubmit={save} action={t('Save')}>
            <TextField
              label={t('Title')}
              name="title"
              defaultValue={conversation.title}
              maxLength={longestTitle}
              required
            />
            <TextField
              label={t('Folder')}
              hint={t('Type a new name, or one that there is. Empty for none.')}
              name="folder"
              list="folders"
              autoComplete="off"
              defaultValue={conversation.folder ?? ''}
              maxLength={longestFolder}
            />
            <datalist id="folders">
              {folders.map((folder) => (
                <option key={folder} value={folder}>
                  {folder}
                </option>
              ))}
            </datalist>
            <label className="flex items-center gap-2">
              <input type="checkbox" name="pinned" defaultChecked={conversation.pinned} />
              {t('Pin it above the others')}
            </label>
          </ActForm>
        </Dialog>
      )}
    </>
  )
}

const efforts = ['minimal', 'low', 'medium', 'high'] as const
const effortNames: Readonly<Record<(typeof efforts)[number], string>> = {
  minimal: 'Minimal',
  low: 'Low',
  medium: 'Medium',
  high: 'High',
}

/** The settings of a form; null where all are left to the model. */
export function settingsIn(given: FormData): ChatSettings | null {
  const number = (name: string) => {
    const text = textOf(given, name)
    return text === undefined ? {} : { [name]: Number(text) }
  }
  const instructions = textOf(given, 'instructions')
  const effort = efforts.find((each) => each === textOf(given, 'reasoning_effort'))
  const settings: ChatSettings = {
    ...(instructions === undefined ? {} : { instructions }),
    ...number('temperature'),
    ...number('top_p'),
    ...number('max_output_tokens'),
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
  }
  return Object.keys(settings).length === 0 ? null : settings
}

interface AskWithProps {
  readonly settings: ChatSettings | null
  /** Whether the picked model reasons. */
  readonly reasons: boolean
  readonly onSettings: (settings: ChatSettings | null) => Promise<void>
}

/** System prompt and parameters of the open conversation. */
export function AskWith({ settings, reasons, onSettings }: AskWithProps) {
  const [open, setOpen] = useState(false)
  const number = Object.keys(settings ?? {}).length
  return (
    <>
      <Button small look="quiet" onClick={() => setOpen(true)}>
        {number === 0 ? t('Instructions') : t('Instructions: {count}', { count: number })}
      </Button>
      {open && (
        <Dialog wide title={t('Instructions and parameters')} onClose={() => setOpen(false)}>
          <AskWithForm
            settings={settings ?? {}}
            reasons={reasons}
            onSettings={async (next) => {
              await onSettings(next)
              setOpen(false)
            }}
          />
        </Dialog>
      )}
    </>
  )
}

function AskWithForm({ settings, reasons, onSettings }: AskWithProps & { settings: ChatSettings }) {
  const [instructions, setInstructions] = useState(settings.instructions ?? '')
  const fields = ['instructions', 'temperature', 'top_p', 'max_output_tokens', 'reasoning_effort']
  const left = t('Empty: as the model has it.')
  return (
    <ActForm
      onSubmit={(given) => onSettings(settingsIn(given))}
      action={t('Save')}
      fields={fields.map((field) => `settings.${field}`)}
    >
      {(faultOf) => (
        <>
          <p className="text-muted">{t('Each question of this conversation is asked with them.')}</p>
          <TextArea
            label={t('System prompt')}
            name="instructions"
            rows={5}
            dir="auto"
            maxLength={longestInstructions}
            value={instructions}
            onChange={({ target }) => setInstructions(target.value)}
            error={faultOf('settings.instructions')}
          />
          <PromptChoice onChoose={setInstructions} />
          <div className="grid gap-3.5 sm:grid-cols-2">
            <TextField
              label={t('Temperature')}
              hint={left}
              name="temperature"
              type="number"
              min={0}
              max={2}
              step="any"
              defaultValue={settings.temperature}
              error={faultOf('settings.temperature')}
            />
            <TextField
              label={t('Top P')}
              hint={left}
              name="top_p"
              type="number"
              min={0}
              max={1}
              step="any"
              defaultValue={settings.top_p}
              error={faultOf('settings.top_p')}
            />
            <TextField
              label={t('Longest answer, tokens')}
              hint={left}
              name="max_output_tokens"
              type="number"
              min={1}
              step={1}
              defaultValue={settings.max_output_tokens}
              error={faultOf('settings.max_output_tokens')}
            />
            <Choice
              label={t('Reasoning effort')}
              hint={reasons ? left : t('This model does not reason: it is not sent.')}
              name="reasoning_effort"
              defaultValue={settings.reasoning_effort ?? ''}
              options={[['', '–'], ...efforts.map((each) => [each, t(effortNames[each])] as const)]}
            />
          </div>
        </>
      )}
    </ActForm>
  )
}
