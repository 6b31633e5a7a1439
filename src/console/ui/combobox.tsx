// A list that is typed into: ↑ and ↓ move in it, Enter takes what they stand at, the focus stays in the field.

import { type KeyboardEvent, type ReactNode, useEffect, useId, useState } from 'react'

export interface Option {
  /** Not twice in a list. */
  readonly id: string
  readonly content: ReactNode
  /** It is what is chosen now. */
  readonly selected?: boolean
  /** It can be stood at, to hear why, but not taken. */
  readonly disabled?: boolean
}

export interface OptionGroup {
  /** Of these options, in the reader's language. */
  readonly heading: string
  readonly options: readonly Option[]
}

interface ComboboxProps {
  /** What is typed, for screen readers. */
  readonly label: string
  readonly listLabel: string
  readonly placeholder: string
  readonly typed: string
  readonly onTyped: (text: string) => void
  /** Those without options are not shown. */
  readonly groups: readonly OptionGroup[]
  /** Where the list begins to be moved in; otherwise at the first that can be taken. */
  readonly begins?: string | undefined
  readonly onTake: (id: string) => void
  /** Said below the list, also aloud; empty for nothing. */
  readonly note: string
  /** Shown below the list, for the option that is stood at. */
  readonly renderBelow?: (active: Option) => ReactNode
}

export function Combobox(props: ComboboxProps) {
  const { label, listLabel, placeholder, typed, onTyped, groups, begins, onTake, note, renderBelow } = props
  const [moved, setMoved] = useState<string | null>(null)
  const list = useId()
  const options = groups.flatMap((group) => group.options)
  const at = (id: string | null | undefined) => options.find((option) => option.id === id)
  const active = at(moved) ?? at(begins) ?? options.find(({ disabled }) => !disabled) ?? options[0]
  const elementOf = ({ id }: Option) => `${list}-${id}`
  useEffect(() => {
    if (active) document.getElementById(elementOf(active))?.scrollIntoView({ block: 'nearest' })
  }, [active?.id])
  const take = (option: Option) => {
    if (option.disabled) setMoved(option.id)
    else onTake(option.id)
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing || !active) return
    if (event.key === 'Enter') {
      event.preventDefault()
      take(active)
      return
    }
    const next = stepsOf(options.length)[event.key]?.(options.indexOf(active))
    if (next === undefined) return
    event.preventDefault()
    setMoved(options[next]!.id)
  }
  return (
    <>
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={active && elementOf(active)}
        autoComplete="off"
        spellCheck={false}
        aria-label={label}
        placeholder={placeholder}
        value={typed}
        onChange={(event) => {
          onTyped(event.target.value)
          setMoved(null)
        }}
        onKeyDown={onKey}
        className="control mb-3"
      />
      <div
        id={list}
        role="listbox"
        aria-label={listLabel}
        className="-mx-2 max-h-[55dvh] scroll-py-8 overflow-y-auto"
      >
        {groups
          .filter((group) => group.options.length > 0)
          .map(({ heading, options: some }) => (
            <div key={heading} role="group" aria-label={heading}>
              <p
                aria-hidden="true"
                className="sticky top-0 bg-panel px-2 pt-1 pb-0.5 text-[12px] font-medium text-muted"
              >
                {heading}
              </p>
              {some.map((option) => (
                <OptionRow
                  key={option.id}
                  id={elementOf(option)}
                  option={option}
                  isActive={option === active}
                  onTake={() => take(option)}
                />
              ))}
            </div>
          ))}
      </div>
      <p role="status" className={note === '' ? 'sr-only' : 'pt-1.5 text-muted'}>
        {note}
      </p>
      {active && renderBelow?.(active)}
    </>
  )
}

/** Where a key moves in a list of so many; around its ends. */
function stepsOf(length: number): Readonly<Record<string, (at: number) => number>> {
  return {
    ArrowDown: (at) => (at + 1) % length,
    ArrowUp: (at) => (at - 1 + length) % length,
    PageDown: (at) => Math.min(at + 8, length - 1),
    PageUp: (at) => Math.max(at - 8, 0),
  }
}

interface OptionRowProps {
  readonly id: string
  readonly option: Option
  readonly isActive: boolean
  readonly onTake: () => void
}

function OptionRow({ id, option: { content, selected, disabled }, isActive, onTake }: OptionRowProps) {
  return (
    <button
      type="button"
      tabIndex={-1}
      id={id}
      role="option"
      aria-selected={selected ?? isActive}
      aria-disabled={disabled ?? false}
      // The focus stays where keys are taken.
      onMouseDown={(event) => event.preventDefault()}
      onClick={onTake}
      className={`group flex w-full items-center gap-2 rounded-md px-2 py-1.5 text-left ${
        isActive ? 'outline-2 -outline-offset-2 outline-accent' : ''
      } ${selected ? 'bg-accent-soft' : 'hover:bg-paper'} ${disabled ? 'cursor-not-allowed text-muted' : ''}`}
    >
      {content}
    </button>
  )
}
