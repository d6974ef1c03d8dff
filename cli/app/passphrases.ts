import type { Host } from '../host/index.ts';
import type { PassphraseSource } from '../workspace/index.ts';

/** Reads a descriptor to its end; rejects beyond `maxBytes`. */
export type ReadDescriptor = (
  descriptor: number,
  options: { readonly maxBytes: number; readonly signal: AbortSignal },
) => Promise<Uint8Array>;

/** The passphrases of a run. Most commands need none, so their module is loaded by the first call. */
export function passphrasesFrom({
  host,
  descriptor,
  readDescriptor,
  signal,
}: {
  readonly host: Host;
  /** `--passphrase-fd`; undefined when not given. */
  readonly descriptor: number | undefined;
  readonly readDescriptor: ReadDescriptor;
  readonly signal: AbortSignal;
}): PassphraseSource {
  const load = async (): Promise<PassphraseSource> => {
    const { PromptPassphrases } = await import('../workspace/index.ts');
    return new PromptPassphrases({
      descriptor,
      readDescriptor: (from, maxBytes) => readDescriptor(from, { maxBytes, signal }),
      askSecrets: (questions) => host.askSecrets(questions),
    });
  };
  let loaded: Promise<PassphraseSource> | undefined;
  const source = (): Promise<PassphraseSource> => (loaded ??= load());
  return {
    current: async (path) => (await source()).current(path),
    create: async (options) => (await source()).create(options),
  };
}
