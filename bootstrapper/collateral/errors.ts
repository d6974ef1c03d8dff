import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const nodeCollateralErrors = defineErrors({
  'collateral-refused': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning:
      'Collateral that this machine was given is malformed, not signed by its manufacturer, out of date, or older than what it has. What it had stays in force.',
    fix: 'The message says which document and why. Refresh the workspace’s with `cluster attest collateral refresh` and hand it on; lay a fresh bundle beside the provisioning of a machine that is no member.',
  },
});

export class NodeCollateralError extends CodedError<keyof typeof nodeCollateralErrors> {
  constructor(message: string, options?: CodedErrorOptions) {
    super(nodeCollateralErrors, 'collateral-refused', message, options);
  }
}
