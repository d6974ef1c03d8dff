import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Errors of the flags `--package` and `--package-sha256`. */
export const cloudInitErrors = defineErrors({
  'cloudinit-package-path': fault.operator.usage(
    'The agent package was given as a path on this workstation, which machines cannot read. Nothing was done.',
    'Give a URL that machines can reach (`https://…`; `cluster package repo` creates a directory to serve), or `file:///PATH` for a package in the image of the machine.',
  ),
  'cloudinit-package-unverified': fault.operator.usage(
    'The agent package would be downloaded without a hash, so that its server, or anyone on the path to it, could replace it. The agent is root on the machine. Nothing was done.',
    'Add `--package-sha256 $(sha256sum FILE | cut -c1-64)`.',
  ),
  'cloudinit-package-invalid': fault.operator.usage(
    'The URL or the hash of the agent package is invalid. Nothing was done.',
    'Use `--package https://…` (or `file:///PATH`) and `--package-sha256` with 64 hex digits.',
  ),
});

/** The agent package was given in an invalid way. */
export class CloudInitError extends errorClass(cloudInitErrors) {}
