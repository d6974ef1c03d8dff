import type { z } from 'zod';
import { defineErrors, errorClass, fault } from '../errors/index.ts';

/** The errors of configuration files. */
export const configErrors = defineErrors({
  'config-immutable': fault.operator.precondition(
    'The change affects a setting that is immutable after the init. Nothing was changed.',
    'Revert the settings named in the message. Only `join`, `certificates`, `proxy`, `registries`, `authentication` and `attestation` (without `lockPcr`) can change; all others need a new cluster.',
  ),
  'config-invalid': fault.operator.usage(
    'The configuration file has an unknown key or an invalid value. Nothing was changed.',
    'Correct the lines named in the message. `cluster config schema` describes every key.',
  ),
  'config-provisioning-invalid': fault.operator.usage(
    'The provisioning file of this machine has an unknown key or an invalid value. Nothing was changed.',
    'Correct the keys named in the message; `cluster provisioning schema` describes all keys. On a machine, then restart bootstrapper.service.',
  ),
});

/** A configuration file is invalid, or a change is not allowed. */
export class ConfigError extends errorClass(configErrors) {}

/** Adds a problem to a section that a schema checks as a whole. `message` is what is expected at `path`. */
export function addProblem(context: z.RefinementCtx, path: (string | number)[], message: string): void {
  context.addIssue({ code: 'custom', path, message });
}
