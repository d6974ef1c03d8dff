import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Errors of contexts. */
export const contextsErrors = defineErrors({
  'contexts-unknown': fault.operator.usage(
    'No context has this name.',
    'Use a name that `cluster context ls` shows, or add one with `cluster context add NAME DIRECTORY`.',
  ),
  'contexts-no-workspace': fault.operator.usage(
    'The directory is no workspace: it has neither a cluster.yaml nor an identity.json.',
    'Give the directory in which `cluster config generate` or `cluster operator accept` ran.',
  ),
  'contexts-taken': fault.operator.usage(
    'Another workspace already uses this context name. Nothing was changed.',
    'Choose another name, or remove the old context first with `cluster context remove NAME`.',
  ),
  'contexts-file-damaged': fault.operator.precondition(
    'The file of contexts cannot be read.',
    'Correct the file that the message names, or delete it and add the contexts again.',
  ),
});

/** An error of contexts. */
export class ContextsError extends errorClass(contextsErrors) {}
