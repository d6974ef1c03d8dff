import type { FilePort } from '../../internal/file/index.ts';
import type { PassphraseSource } from './passphrase.ts';
import { PromptPassphrases } from './prompt-passphrases.ts';
import type { SecretAccess } from './secret-file.ts';

/** A run without a terminal and without `--passphrase-fd`: every passphrase is refused. */
export const noPassphrases: PassphraseSource = new PromptPassphrases({
  descriptor: undefined,
  readDescriptor: () => Promise.reject(new TypeError('no descriptor')),
  askSecrets: () => Promise.resolve(undefined),
});

/** Reads the files of workspaces that are not encrypted. */
export function plainSecrets(files: FilePort): SecretAccess {
  return { ports: { files }, passphrases: noPassphrases };
}
