// What is shown instead of a page that cannot be rendered, or whose script cannot be loaded.

import { Component, type ReactNode } from 'react'
import { t } from './strings/text.ts'
import { Button, Failure } from './ui/basics.tsx'

interface CrashGuardProps {
  /** The address of the page; another address is tried afresh. */
  readonly page: string
  readonly children: ReactNode
}

interface CrashGuardState {
  readonly page: string
  readonly crash: { readonly error: unknown } | null
}

export class CrashGuard extends Component<CrashGuardProps, CrashGuardState> {
  override state: CrashGuardState = { page: this.props.page, crash: null }

  static getDerivedStateFromProps({ page }: CrashGuardProps, state: CrashGuardState): CrashGuardState | null {
    return page === state.page ? null : { page, crash: null }
  }

  static getDerivedStateFromError(error: unknown): Partial<CrashGuardState> {
    return { crash: { error } }
  }

  override render() {
    const { crash } = this.state
    if (crash === null) return this.props.children
    return (
      <div className="mx-auto grid max-w-xl gap-3 p-6">
        <h1 className="text-lg font-semibold">{t('This page cannot be shown.')}</h1>
        <p>{t('The gateway may have been updated since it was opened. Load it again.')}</p>
        <Failure error={crash.error} />
        <div>
          <Button look="primary" onClick={() => location.reload()}>
            {t('Load again')}
          </Button>
        </div>
      </div>
    )
  }
}
