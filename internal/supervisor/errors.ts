import { defineErrors, errorClass } from '../errors/index.ts';

export const supervisorErrors = defineErrors({
  'supervisor-straggler': {
    fault: 'system',
    exit: 'internal',
    retryable: true,
    meaning: 'A part of the program went on after it was asked to stop, so the program gave itself up.',
    fix: 'systemd starts the program again by itself. Report the path in the message: it is a defect.',
  },
});

export type SupervisorErrorCode = keyof typeof supervisorErrors;

export class SupervisorError extends errorClass(supervisorErrors) {}
