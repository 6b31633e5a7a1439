// The frame around every page: navigation, the account, and keyboard shortcuts.

import { lazy, type ReactNode, Suspense, useEffect, useId, useRef, useState } from 'react'
import { Link, useLocation } from 'wouter'
import type { SessionView } from '../http/console/answers.ts'
import { call, takeSession, useCredits } from './api/call.ts'
import { t, usdShort } from './strings/text.ts'
import { BrandLinks, Button, Dialog, Logo } from './ui/kit.tsx'
import {
  chooseTheme,
  isBoolean,
  type Theme,
  themeNames,
  themes,
  useRemembered,
  useTheme,
} from './ui/remembered.ts'
import { ElevationDialog } from './session/signed-out.tsx'

interface Place {
  readonly path: string
  readonly name: string
  /** The second key of its shortcut, after `g`. */
  readonly key: string
  /** Of a 16 × 16 drawing. */
  readonly icon: string
}

const places: readonly Place[] = [
  { path: '/', name: 'Overview', key: 'o', icon: 'M2.5 7.5 8 3l5.5 4.5V13h-4v-3.5h-3V13h-4z' },
  { path: '/keys', name: 'Keys', key: 'k', icon: 'M7 9a3.2 3.2 0 1 1 1.3-1.3L13.5 13v-2.5M11 10.5l-1.3 1.3' },
  { path: '/credits', name: 'Credits', key: 'c', icon: 'M2.5 4.5h11v8h-11zM2.5 7h11M10 10h1.5' },
  { path: '/usage', name: 'Usage', key: 'u', icon: 'M3 13V8.5M6.3 13V4M9.7 13V6.5M13 13v-3' },
  { path: '/requests', name: 'Requests', key: 'r', icon: 'M3 4h10M3 8h10M3 12h6.5' },
  { path: '/models', name: 'Models', key: 'm', icon: 'M8 2.5 13 5v6L8 13.5 3 11V5zM3 5l5 2.5L13 5M8 7.5v6' },
  { path: '/chat', name: 'Chat', key: 't', icon: 'M2.5 3.5h11v7.5H7l-3 2.5V11H2.5z' },
  {
    path: '/mcp',
    name: 'Tools',
    key: 'v',
    icon: 'M9.5 3.2a3 3 0 0 0 3.3 3.9L7 12.9a1.6 1.6 0 0 1-2.3-2.3l5.8-5.8',
  },
  { path: '/connect', name: 'Connect', key: 'n', icon: 'm5.5 5-3 3 3 3M10.5 5l3 3-3 3M9 3.5 7 12.5' },
  {
    path: '/settings',
    name: 'Settings',
    key: 's',
    icon: 'M2.5 5h6M12 5h1.5M2.5 11H4M7.5 11h6M10.2 3.3v3.4M5.7 9.3v3.4',
  },
]

/** Pages for operators only. */
const operatorPlaces: readonly Place[] = [
  { path: '/operator', name: 'Installation', key: 'i', icon: 'M3 3h10v4H3zM3 9h10v4H3zM5 5h.01M5 11h.01' },
  {
    path: '/operator/accounts',
    name: 'Accounts',
    key: 'a',
    icon: 'M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M3.5 13.5c.4-2.6 2.2-3.9 4.5-3.9s4.1 1.3 4.5 3.9',
  },
  {
    path: '/operator/requests',
    name: 'All calls',
    key: 'q',
    icon: 'M3 4h10M3 8h10M3 12h4M11.5 10.5a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6',
  },
  {
    path: '/operator/usage',
    name: 'Usage of all',
    key: 'j',
    icon: 'M2.5 2.500v11h11M5.500 11V8M8.500 11V5M11.500 11V7',
  },
  {
    path: '/operator/groups',
    name: 'Groups',
    key: 'w',
    icon: 'M5.5 7.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4M10.5 7.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4M2 12.5c.3-2.2 1.6-3.3 3.5-3.3s3.200 1.100 3.500 3.300M10 9.200c2.200-.2 3.700 1 4 3.300',
  },
  {
    path: '/operator/payments',
    name: 'Payments',
    key: 'y',
    icon: 'M2.5 4h11v8h-11zM8 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6M4.5 8h.01M11.5 8h.01',
  },
  {
    path: '/operator/providers',
    name: 'Providers',
    key: 'p',
    icon: 'M4.5 12h7a2.5 2.5 0 0 0 .3-5 4 4 0 0 0-7.7-.6A2.9 2.9 0 0 0 4.5 12',
  },
  {
    path: '/operator/models',
    name: 'Routes and models',
    key: 'f',
    icon: 'M2.5 8h3M5.500 8 9 4h4.500M5.500 8H13.500M5.500 8 9 12h4.500',
  },
  {
    path: '/operator/catalog',
    name: 'Catalog',
    key: 'd',
    icon: 'M3 3.5h4.5v9H3zM8.5 3.5H13v9H8.5zM4.5 6h1.5M10 6h1.5',
  },
  {
    path: '/operator/ledger',
    name: 'Ledger',
    key: 'l',
    icon: 'M4 2.5h8.5v11H4zM6.5 5.5h3.5M6.5 8h3.5M4 2.5v11',
  },
  {
    path: '/operator/keys',
    name: 'Management keys',
    key: 'h',
    icon: 'M6.5 9.5a3 3 0 1 1 1.2-1.2L13 13.5v-2.2M5 6.5h.01',
  },
  {
    path: '/operator/acts',
    name: 'Audit log',
    key: 'x',
    icon: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 5v3.2l2 1.3',
  },
  {
    path: '/operator/settings',
    name: 'Configuration',
    key: 'e',
    icon: 'M5.5 2.5c-1.8 0-1.4 2.6-1.4 3.6S3.4 8 2.5 8c.9 0 1.6.9 1.6 1.9s-.4 3.6 1.4 3.6M10.5 2.5c1.8 0 1.4 2.6 1.4 3.6s.7 1.9 1.6 1.9c-.9 0-1.6.9-1.6 1.9s.4 3.6-1.4 3.6',
  },
]

/** For whoever is a member of a group. */
const groupPlace: Place = {
  path: '/groups',
  name: 'My groups',
  key: 'b',
  icon: operatorPlaces.find(({ path }) => path === '/operator/groups')!.icon,
}

function ownPlaces({ account }: SessionView): readonly Place[] {
  if (account === null || account.groups === 0) return places
  return places.flatMap((place) => (place.path === '/credits' ? [groupPlace, place] : [place]))
}

function placesFor(session: SessionView): readonly Place[] {
  const own = ownPlaces(session)
  return session.role === 'operator' ? [...own, ...operatorPlaces] : own
}

/** The page of an address: the one with the longest matching path. */
function placeOf(path: string): Place | undefined {
  return [...places, groupPlace, ...operatorPlaces]
    .filter((place) => path === place.path || (place.path !== '/' && path.startsWith(`${place.path}/`)))
    .toSorted((a, b) => b.path.length - a.path.length)[0]
}

/** With the pages, which are loaded after the sign-in. */
const Palette = lazy(async () => ({ default: (await import('./pages/pages.tsx')).Palette }))

export function Shell({ session, children }: { session: SessionView; children: ReactNode }) {
  const [path, navigate] = useLocation()
  const [help, setHelp] = useState(false)
  const [finding, setFinding] = useState(false)
  const [folded, setFolded] = useRemembered('weir.menu-folded', false, isBoolean)
  const main = useRef<HTMLElement>(null)
  const menu = useId()
  const here = placeOf(path)
  const { brand } = session
  useJumps(placesFor(session), navigate, () => setHelp(true))
  usePaletteKey(() => setFinding(true))
  useEffect(() => {
    document.title = here ? `${t(here.name)} · ${brand.name}` : brand.name
    document.getElementById(menu)?.hidePopover()
  }, [here, menu, path, brand.name])
  return (
    <div
      className={`min-h-dvh print:block lg:grid ${
        folded ? 'lg:grid-cols-[3.5rem_minmax(0,1fr)]' : 'lg:grid-cols-[14.5rem_minmax(0,1fr)]'
      }`}
    >
      <a
        href="#main"
        onClick={(event) => {
          event.preventDefault()
          main.current?.focus()
        }}
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-10 focus:rounded focus:bg-accent focus:px-3 focus:py-2 focus:text-accent-ink"
      >
        {t('Skip to the content')}
      </a>
      <header className="sticky top-0 z-10 flex items-center gap-2 border-b border-line bg-panel px-3 py-2 lg:hidden print:hidden">
        <button
          type="button"
          popoverTarget={menu}
          aria-label={t('Menu')}
          className="grid size-9 place-items-center rounded-md hover:bg-paper"
        >
          <svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">
            <path d="M2 4h12M2 8h12M2 12h12" stroke="currentColor" strokeWidth="1.5" fill="none" />
          </svg>
        </button>
        <Logo src={brand.logo} />
        <span className="min-w-0 flex-1 truncate font-semibold">{here ? t(here.name) : brand.name}</span>
        <FindButton onFind={() => setFinding(true)} />
      </header>
      <div
        id={menu}
        popover="auto"
        className="m-0 h-dvh w-64 flex-col border-r border-line bg-panel p-3 shadow-xl open:flex lg:hidden"
      >
        <Navigation path={path} session={session} onHelp={() => setHelp(true)} />
      </div>
      <aside
        className={`sticky top-0 hidden h-dvh flex-col border-r border-line bg-panel lg:flex print:hidden ${
          folded ? 'items-center p-2 pt-3' : 'p-3'
        }`}
      >
        <div className={`mb-3 flex items-center gap-1 ${folded ? 'flex-col' : ''}`}>
          <Link
            href="/"
            aria-label={brand.name}
            className="flex min-w-0 flex-1 items-center gap-2.5 px-2 pt-1"
          >
            <Logo src={brand.logo} />
            {!folded && <span className="truncate text-base font-semibold tracking-tight">{brand.name}</span>}
          </Link>
          <FindButton onFind={() => setFinding(true)} />
          <IconButton
            label={folded ? t('Unfold the menu') : t('Fold the menu')}
            expanded={!folded}
            icon="M2.5 3h11v10h-11zM6.5 3v10"
            onClick={() => setFolded(!folded)}
          />
        </div>
        <Navigation path={path} session={session} folded={folded} onHelp={() => setHelp(true)} />
      </aside>
      <main ref={main} id="main" tabIndex={-1} className="min-w-0 outline-none">
        {path.startsWith('/chat') ? (
          children
        ) : (
          <div className="mx-auto max-w-6xl px-4 py-6 sm:px-8">{children}</div>
        )}
      </main>
      <ElevationDialog />
      {finding && (
        <Suspense>
          <Palette
            places={placesFor(session)}
            actions={[
              { name: t('Keyboard shortcuts'), run: () => setHelp(true) },
              { name: folded ? t('Unfold the menu') : t('Fold the menu'), run: () => setFolded(!folded) },
              ...themes.map((theme) => ({
                name: t('Theme: {name}', { name: t(themeNames[theme]) }),
                run: () => chooseTheme(theme),
              })),
              { name: t('Sign out'), run: signOut },
            ]}
            onClose={() => setFinding(false)}
          />
        </Suspense>
      )}
      {help && <Shortcuts all={placesFor(session)} onClose={() => setHelp(false)} />}
    </div>
  )
}

function signOut(): void {
  void call<SessionView>('POST', 'sign-out', {}).then(takeSession, () => location.reload())
}

interface IconButtonProps {
  readonly label: string
  /** Of a 16 × 16 drawing. */
  readonly icon: string
  readonly expanded?: boolean
  readonly onClick: () => void
}

function IconButton({ label, icon, expanded, onClick }: IconButtonProps) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      aria-expanded={expanded}
      onClick={onClick}
      className="grid size-8 shrink-0 place-items-center rounded-md text-muted hover:bg-paper hover:text-ink"
    >
      <Icon path={icon} />
    </button>
  )
}

function Icon({ path }: { path: string }) {
  return (
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" className="shrink-0">
      <path
        d={path}
        fill="none"
        stroke="currentColor"
        strokeWidth="1.35"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  )
}

function FindButton({ onFind }: { onFind: () => void }) {
  return (
    <IconButton
      label={t('Command palette')}
      icon="M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9M10.3 10.3l3.2 3.2"
      onClick={onFind}
    />
  )
}

interface NavigationProps {
  readonly path: string
  readonly session: SessionView
  /** To its icons. */
  readonly folded?: boolean
  readonly onHelp: () => void
}

function Navigation({ path, session, folded = false, onHelp }: NavigationProps) {
  const { data: credits } = useCredits()
  const theme = useTheme()
  return (
    <>
      <nav aria-label={t('Console')} className="flex-1 overflow-y-auto">
        <PlaceList of={ownPlaces(session)} here={placeOf(path)} folded={folded} />
        {session.role === 'operator' && (
          <>
            {folded ? (
              <hr className="my-2 border-line" />
            ) : (
              <p className="mt-5 mb-1 px-2 text-[12px] font-medium text-muted">{t('Operator')}</p>
            )}
            <PlaceList of={operatorPlaces} here={placeOf(path)} folded={folded} />
          </>
        )}
      </nav>
      <div className={folded ? 'hidden' : 'border-t border-line px-2 pt-3'}>
        {credits && (
          <dl className="mb-3 grid grid-cols-[1fr_auto] gap-x-2 gap-y-0.5 text-[13px]">
            <dt className="text-muted">{t('API credit')}</dt>
            <dd className="num">{usdShort(credits.spendable.api)}</dd>
            <dt className="text-muted">{t('Chat credit')}</dt>
            <dd className="num">{usdShort(credits.spendable.app)}</dd>
          </dl>
        )}
        <p className="truncate text-[13px]" title={session.account?.email}>
          {session.account?.email}
        </p>
        <div className="mt-1 -ml-2 flex flex-wrap">
          <Button small look="quiet" onClick={signOut}>
            {t('Sign out')}
          </Button>
          <Button small look="quiet" onClick={onHelp}>
            {t('Shortcuts')} <kbd aria-hidden="true">?</kbd>
          </Button>
        </div>
        <BrandLinks brand={session.brand} />
        <label className="mt-1 flex items-center gap-2 text-[13px] text-muted">
          {t('Theme')}
          <select
            value={theme}
            onChange={({ target }) => chooseTheme(target.value as Theme)}
            className="h-7 min-w-0 flex-1 rounded-md border border-line-strong bg-panel px-1 text-ink"
          >
            {themes.map((each) => (
              <option key={each} value={each}>
                {t(themeNames[each])}
              </option>
            ))}
          </select>
        </label>
      </div>
    </>
  )
}

interface PlaceListProps {
  readonly of: readonly Place[]
  readonly here: Place | undefined
  readonly folded: boolean
}

function PlaceList({ of, here, folded }: PlaceListProps) {
  return (
    <ul className="grid gap-0.5">
      {of.map((place) => (
        <li key={place.path}>
          <Link
            href={place.path}
            aria-current={place === here ? 'page' : undefined}
            title={folded ? t(place.name) : undefined}
            className={`flex h-8 items-center gap-2.5 rounded-md px-2 ${
              place === here ? 'bg-accent-soft font-medium text-accent' : 'hover:bg-paper'
            }`}
          >
            <Icon path={place.icon} />
            {folded ? <span className="sr-only">{t(place.name)}</span> : t(place.name)}
          </Link>
        </li>
      ))}
    </ul>
  )
}

function Shortcuts({ all, onClose }: { all: readonly Place[]; onClose: () => void }) {
  return (
    <Dialog title={t('Keyboard shortcuts')} onClose={onClose}>
      <dl className="grid grid-cols-[1fr_auto] gap-y-1.5">
        {all.map(({ path, name, key }) => (
          <div key={path} className="contents">
            <dt>{t(name)}</dt>
            <dd className="font-mono">g {key}</dd>
          </div>
        ))}
        <dt>{t('Search on this page')}</dt>
        <dd className="font-mono">/</dd>
        <dt>{t('Find a page, a conversation, a model or an action')}</dt>
        <dd className="font-mono">Ctrl K</dd>
        <dt>{t('Show this list')}</dt>
        <dd className="font-mono">?</dd>
      </dl>
    </Dialog>
  )
}

const jumpWithinMs = 1_200

/** `g` and a letter open a page, `/` its search, `?` the list of shortcuts. */
function useJumps(all: readonly Place[], navigate: (path: string) => void, onHelp: () => void): void {
  const since = useRef(-Infinity)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement
      const types = target.closest('input, textarea, select, [contenteditable], dialog') !== null
      if (types || event.metaKey || event.ctrlKey || event.altKey) return
      const jumping = event.timeStamp - since.current < jumpWithinMs
      since.current = event.key === 'g' ? event.timeStamp : -Infinity
      if (jumping) {
        const place = all.find(({ key }) => key === event.key)
        if (place) navigate(place.path)
        return
      }
      if (event.key === '?') onHelp()
      if (event.key !== '/') return
      event.preventDefault()
      document.querySelector<HTMLInputElement>('main input[type="search"]')?.focus()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  })
}

/** Ctrl-K, or ⌘K, wherever the focus is; not over a dialog. */
function usePaletteKey(onFind: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return
      if (event.shiftKey || event.altKey || event.isComposing) return
      event.preventDefault()
      if (document.querySelector('dialog[open]') === null) onFind()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  })
}
