import { CodedError, defineErrors, type CodedErrorOptions } from '../../internal/errors/index.ts';

export const cloudInitErrors = defineErrors({
  'cloudinit-package-path': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'The agent’s package was named by a path of this workstation, which means nothing to a machine. Nothing was done.',
    fix: 'Name an address that machines reach (`https://…`; `cluster package repo` makes a directory to serve), or `file:///PATH` for a package that lies in the image of the machine.',
  },
  'cloudinit-package-unverified': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'The agent’s package would come over plain HTTP, so that everybody on the way could replace it. Nothing was done.',
    fix: 'Serve it over HTTPS, or say what it must be: `--package-sha256 $(sha256sum FILE | cut -c1-64)`.',
  },
  'cloudinit-package-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'What was said of the agent’s package has a form that means nothing. Nothing was done.',
    fix: 'Name `--package https://…` (or `http://…`, `file:///PATH`) and `--package-sha256` with 64 hex digits.',
  },
});

export type CloudInitErrorCode = keyof typeof cloudInitErrors;

export class CloudInitError extends CodedError<CloudInitErrorCode> {
  constructor(code: CloudInitErrorCode, message: string, options?: CodedErrorOptions) {
    super(cloudInitErrors, code, message, options);
  }
}
