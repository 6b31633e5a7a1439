// The operators' pages by path.

import { Route, Switch } from 'wouter'
import { t } from '../strings/text.ts'
import { PageHead } from '../ui/kit.tsx'
import { UsageOfEverybody } from '../pages/usage.tsx'
import { AccountPage, Accounts, AccountStatement } from './accounts.tsx'
import { GroupPage, Groups } from './groups.tsx'
import { Acts, CatalogPage, Ledger, OperatorSettings, Overview } from './installation.tsx'
import { ManagementKeys } from './management-keys.tsx'
import { AllPayments, Messages, PaymentPage, Subscriptions } from './payments.tsx'
import { Vouchers } from './vouchers.tsx'
import { OperatorModels } from './models.tsx'
import { AllPlans } from './plans.tsx'
import { ProviderPage, Providers } from './providers.tsx'
import { AllRequests, AnyRequest, Search, SearchBox } from './requests.tsx'

export default function OperatorPages() {
  return (
    <>
      <SearchBox />
      <Places />
    </>
  )
}

function Places() {
  return (
    <Switch>
      <Route path="/operator" component={Overview} />
      <Route path="/operator/accounts" component={Accounts} />
      <Route path="/operator/accounts/:id" component={AccountPage} />
      <Route path="/operator/accounts/:id/statements/:month?" component={AccountStatement} />
      <Route path="/operator/search" component={Search} />
      <Route path="/operator/requests" component={AllRequests} />
      <Route path="/operator/requests/:id" component={AnyRequest} />
      <Route path="/operator/usage" component={UsageOfEverybody} />
      <Route path="/operator/groups" component={Groups} />
      <Route path="/operator/groups/:id" component={GroupPage} />
      <Route path="/operator/payments" component={AllPayments} />
      <Route path="/operator/payments/messages" component={Messages} />
      <Route path="/operator/payments/vouchers" component={Vouchers} />
      <Route path="/operator/payments/plans" component={AllPlans} />
      <Route path="/operator/payments/subscriptions" component={Subscriptions} />
      <Route path="/operator/payments/:id" component={PaymentPage} />
      <Route path="/operator/providers" component={Providers} />
      <Route path="/operator/providers/:id" component={ProviderPage} />
      <Route path="/operator/models" component={OperatorModels} />
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
