import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Errors of changing the configuration of a cluster. */
export const configurationErrors = defineErrors({
  'configuration-base-unknown': fault.operator.precondition(
    'The configuration was changed since init, and this workspace has never applied a configuration, so the revision on which the file is based is unknown. Nothing was changed.',
    'Compare the file with `cluster config show`, add what is missing, then run `cluster config apply --onto REVISION` with the revision shown.',
  ),
  'configuration-unreadable': fault.operator.precondition(
    'This version cannot read the configuration of the cluster: another version wrote it, or it was written directly to etcd. The configuration can only be replaced as a whole. Nothing was changed.',
    'Copy what should stay from `cluster config show` into the file, then run `cluster config apply --onto REVISION` with the revision shown, or use `cluster config edit`.',
  ),
  'configuration-conflict': fault.operator.precondition(
    'The file and another operator changed the same settings to different values. Nothing was changed.',
    'Set the wanted value of each setting in the file, then run `cluster config apply --onto REVISION` with the revision that `cluster config show` shows.',
  ),
  'configuration-unsigned': fault.operator.precondition(
    'The change keeps settings of the active configuration that no owner has signed. Somebody may have written them directly to etcd, and your signature would make them valid. Nothing was changed.',
    'Check `cluster config show` and `cluster audit ls`. If everything in it is right, sign it with `cluster sign`. Otherwise replace it with your file: `cluster config apply --onto REVISION`. Then run the same command again.',
  ),
  'configuration-immutable': fault.operator.precondition(
    'The file changes settings that cannot be changed after init. Nothing was changed.',
    'Revert these settings. `join`, `certificates` and `attestation` (except `lockPcr`) can be changed; other changes need a new cluster.',
  ),
});

/** The configuration of a cluster was not changed. */
export class ConfigurationError extends errorClass(configurationErrors) {}
