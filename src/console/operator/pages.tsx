// The operators' pages by path.

import { Route, Switch } from 'wouter'
import { t } from '../strings/text.ts'
import { PageHead } from '../ui/basics.tsx'
import { AccountPage, AccountStatement } from './account.tsx'
import { Accounts } from './accounts.tsx'
import { CatalogPage } from './catalog.tsx'
import { ManagementKeys } from './management-keys.tsx'
import { Acts, Ledger, Overview, Providers } from './installation.tsx'
import { AllPayments, Messages, PaymentPage } from './payments/payments.tsx'
import { Subscriptions } from './payments/subscriptions.tsx'
import { Vouchers } from './payments/vouchers.tsx'
import { OperatorSettings } from './settings.tsx'

export default function OperatorPages() {
  return (
    <Switch>
      <Route path="/operator" component={Overview} />
      <Route path="/operator/accounts" component={Accounts} />
      <Route path="/operator/accounts/:id" component={AccountPage} />
      <Route path="/operator/accounts/:id/statements/:month?" component={AccountStatement} />
      <Route path="/operator/payments" component={AllPayments} />
      <Route path="/operator/payments/messages" component={Messages} />
      <Route path="/operator/payments/vouchers" component={Vouchers} />
      <Route path="/operator/payments/subscriptions" component={Subscriptions} />
      <Route path="/operator/payments/:id" component={PaymentPage} />
      <Route path="/operator/providers" component={Providers} />
      <Route path="/operator/catalog" component={CatalogPage} />
      <Route path="/operator/ledger" component={Ledger} />
      <Route path="/operator/keys" component={ManagementKeys} />
      <Route path="/operator/acts" component={Acts} />
      <Route path="/operator/settings" component={OperatorSettings} />
      <Route>
        <PageHead title={t('There is no such page.')} />
      </Route>
    </Switch>
  )
}
