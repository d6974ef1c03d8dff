import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const nodeCollateralErrors = defineErrors({
  'collateral-refused': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'Collateral that this machine was given is malformed, not signed by its manufacturer, out of date, or older than what it has. What it had stays in force.',
    fix: 'The message says which document and why. In the workspace run `cluster attest collateral refresh`, then `cluster attest collateral hand-on`; a machine that is no member yet needs the new bundle beside its provisioning (`cluster node cloud-init` writes both).',
  },
});

export class NodeCollateralError extends CodedError<keyof typeof nodeCollateralErrors> {
  constructor(message: string, options?: CodedErrorOptions) {
    super(nodeCollateralErrors, 'collateral-refused', message, options);
  }
}
