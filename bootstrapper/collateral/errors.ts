import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Error codes for the collateral cache on a node. */
export const nodeCollateralErrors = defineErrors({
  'collateral-refused': fault.operator.refused(
    'A collateral bundle that this machine received is malformed, not signed by its manufacturer, expired, or older than the bundle in use. The machine keeps the bundle in use.',
    'In the workspace run `cluster attest collateral refresh`, then `cluster attest collateral upload`. A machine that has not joined yet needs the new bundle beside its provisioning: `cluster node cloud-init` writes both.',
  ),
});

/** A refused collateral bundle. The cause names the document and the failed check. */
export class NodeCollateralError extends errorClass(nodeCollateralErrors) {}
