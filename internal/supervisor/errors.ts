import { defineErrors, errorClass, retryable } from '../errors/index.ts';

export const supervisorErrors = defineErrors({
  'supervisor-straggler': retryable.system.internal(
    'A part of the program ignored the request to stop, so the program exited.',
    'Report the path in the error message as a defect. systemd restarts the program by itself.',
  ),
});

/** A tree that did not stop. `details.paths` names the runnables. */
export class SupervisorError extends errorClass(supervisorErrors) {}
