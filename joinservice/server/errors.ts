import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster help errors CODE`. */
export const joinserviceErrors = defineErrors({
  'joinservice-config-invalid': fault.system.usage(
    'The configuration file of the join service is invalid.',
    'Restart bootstrapper.service, which writes this file. Report it if the file is still invalid.',
  ),
  'joinservice-file-missing': fault.system.precondition(
    'A file that the configuration of the join service names does not exist.',
    'Restart bootstrapper.service, which provides the files and starts this service.',
  ),
});

/** An error of this directory, with one of its codes. */
export class JoinserviceError extends errorClass(joinserviceErrors) {}
