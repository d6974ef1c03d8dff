import { Secret } from '../../internal/secret/index.ts';
import { WorkspaceError } from './errors.ts';
import {
  MAX_PASSPHRASE_BYTES,
  Passphrase,
  type NewPassphraseOptions,
  type PassphraseSource,
} from './passphrase.ts';

/** Where the passphrases of a run come from. */
export interface PromptPassphrasesOptions {
  /** `--passphrase-fd`; undefined when not given. */
  readonly descriptor: number | undefined;
  /** Reads a descriptor to its end. Rejects when it cannot be read or has more than `maxBytes`. */
  readonly readDescriptor: (descriptor: number, maxBytes: number) => Promise<Uint8Array>;
  /** Asks at the terminal without showing the answers; undefined when prompts are not possible. */
  readonly askSecrets: (questions: readonly string[]) => Promise<readonly Secret<string>[] | undefined>;
}

/** Reads each passphrase once in a run: from a descriptor, else at the terminal. */
export class PromptPassphrases implements PassphraseSource {
  readonly #options: PromptPassphrasesOptions;
  #current: Promise<Passphrase> | undefined;
  #created: Promise<Passphrase> | undefined;

  constructor(options: PromptPassphrasesOptions) {
    this.#options = options;
  }

  current(path: string): Promise<Passphrase> {
    this.#current ??= this.#read(this.#options.descriptor, [`Passphrase of ${path}:`], path);
    return this.#current;
  }

  create(options: NewPassphraseOptions): Promise<Passphrase> {
    this.#created ??= this.#readNew(options);
    return this.#created;
  }

  async #readNew({ descriptor, replaces }: NewPassphraseOptions): Promise<Passphrase> {
    const from = descriptor ?? (replaces ? undefined : this.#options.descriptor);
    const questions = ['New passphrase:', 'The same passphrase again:'] as const;
    const passphrase = await this.#read(from, questions, 'a new passphrase');
    passphrase.assertStrong();
    return passphrase;
  }

  /** Reads a descriptor, or the answer to all of these questions. */
  async #read(
    descriptor: number | undefined,
    questions: readonly [string, ...string[]],
    what: string,
  ): Promise<Passphrase> {
    if (descriptor !== undefined) return Passphrase.parse(await this.#fromDescriptor(descriptor));
    const [first, ...others] = (await this.#options.askSecrets(questions)) ?? [];
    if (first === undefined) {
      throw new WorkspaceError(
        'workspace-passphrase-needed',
        `reading ${what}: there is no terminal to ask at, and no descriptor was given`,
      );
    }
    const passphrase = Passphrase.parse(first);
    if (others.every((other) => passphrase.equals(Passphrase.parse(other)))) return passphrase;
    throw new WorkspaceError('workspace-passphrase-unusable', `reading ${what}: the two entries differ`);
  }

  /** One line; its end may be missing. */
  async #fromDescriptor(descriptor: number): Promise<Secret<string>> {
    try {
      const raw = await this.#options.readDescriptor(descriptor, MAX_PASSPHRASE_BYTES + 2);
      return new Secret(
        Buffer.from(raw)
          .toString('utf8')
          .replace(/\r?\n$/, ''),
      );
    } catch (cause) {
      const text = `reading the passphrase from descriptor ${descriptor}`;
      throw new WorkspaceError('workspace-passphrase-descriptor', text, { cause });
    }
  }
}
