// The command palette: everything that has a name, found by typing it.

import { useState } from 'react'
import { useLocation } from 'wouter'
import { useConversations, useModels } from './api/call.ts'
import { pickModel } from './ui/remembered.ts'
import { chooseLanguage, language, languages, t } from './strings/text.ts'
import { Combobox } from './ui/combobox.tsx'
import { Dialog } from './ui/kit.tsx'

interface PaletteProps {
  readonly places: readonly { readonly path: string; readonly name: string }[]
  /** What the frame of the pages can do, named in the reader's language. */
  readonly actions: readonly { readonly name: string; readonly run: () => void }[]
  readonly onClose: () => void
}

/** Something that can be found. */
export interface Findable {
  readonly id: string
  readonly name: string
  readonly run: () => void
}

/** Shown of each kind while something is typed, and before. */
const most = 8
const mostBefore: Readonly<Record<Kind, number>> = { pages: 30, actions: 3, conversations: 5, models: 0 }

const kinds: Readonly<Record<Kind, string>> = {
  pages: 'Pages',
  conversations: 'Conversations',
  models: 'Models',
  actions: 'Actions',
}
type Kind = 'pages' | 'conversations' | 'models' | 'actions'

/** What has all words of what was typed in its name; those that begin with it first. */
export function findByName(all: readonly Findable[], typed: string): readonly Findable[] {
  const text = typed.trim().toLowerCase()
  const words = text.split(/\s+/)
  const found = all.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)))
  const begins = ({ name }: Findable) => name.toLowerCase().startsWith(text)
  return [...found.filter(begins), ...found.filter((each) => !begins(each))]
}

export function Palette({ places, actions, onClose }: PaletteProps) {
  const [typed, setTyped] = useState('')
  const [, navigate] = useLocation()
  const { data: conversations } = useConversations()
  const { data: models } = useModels()
  const go = (path: string) => () => navigate(path)
  const all: Readonly<Record<Kind, readonly Findable[]>> = {
    pages: places.map(({ path, name }) => ({ id: `page ${path}`, name: t(name), run: go(path) })),
    conversations: (conversations ?? []).map(({ id, title }) => ({
      id: `conversation ${id}`,
      name: title,
      run: go(`/chat/${id}`),
    })),
    models: (models ?? [])
      .filter(({ kind, callable }) => kind === 'chat' && callable.app === null)
      .map((model) => ({
        id: `model ${model.id}`,
        name: model.id,
        run: () => {
          pickModel(model.id)
          navigate('/chat')
        },
      })),
    actions: [
      { id: 'new chat', name: t('New chat'), run: go('/chat') },
      { id: 'compare', name: t('Two models side by side'), run: go('/chat/compare') },
      ...actions.map(({ name, run }) => ({ id: `action ${name}`, name, run })),
      ...languages
        .filter(([code]) => code !== language())
        .map(([code, name]) => ({
          id: `language ${code}`,
          name: t('Language: {name}', { name }),
          run: () => chooseLanguage(code),
        })),
    ],
  }
  const found = (Object.keys(kinds) as Kind[]).map((kind) => ({
    kind,
    all: findByName(all[kind], typed).slice(0, typed.trim() === '' ? mostBefore[kind] : most),
  }))
  const take = (id: string) => {
    const chosen = Object.values(all)
      .flat()
      .find((each) => each.id === id)
    onClose()
    // The dialog gives the focus back before something else takes it.
    setTimeout(() => chosen?.run())
  }
  const isNothing = found.every((group) => group.all.length === 0)
  return (
    <Dialog title={t('Find')} onClose={onClose}>
      <Combobox
        label={t('Find a page, a conversation, a model or an action')}
        listLabel={t('Found')}
        placeholder={t('Type a name')}
        typed={typed}
        onTyped={setTyped}
        onTake={take}
        note={isNothing ? t('Nothing has this name.') : ''}
        groups={found.map((group) => ({
          heading: t(kinds[group.kind]),
          options: group.all.map(({ id, name }) => ({
            id,
            content: (
              <span dir="auto" className={`min-w-0 truncate ${group.kind === 'models' ? 'font-mono' : ''}`}>
                {name}
              </span>
            ),
          })),
        }))}
      />
    </Dialog>
  )
}
