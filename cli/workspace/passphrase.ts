import { randomBytes, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { Secret } from '../../internal/secret/index.ts';
import { WorkspaceError } from './errors.ts';

const MIN_NEW_CHARS = 12;
const KEY_BYTES = 32;
const SALT_BYTES = 32;
/** 128 MiB: the recommendation of the OWASP password storage cheat sheet for scrypt. */
const NEW_LOG_N = 17;
/** Longest passphrase, in bytes of UTF-8. */
export const MAX_PASSPHRASE_BYTES = 1024;

const derive = promisify(scrypt) as (
  password: string,
  salt: Uint8Array,
  keyBytes: number,
  options: { readonly N: number; readonly r: number; readonly p: number; readonly maxmem: number },
) => Promise<Buffer>;

/** Cost of scrypt (RFC 7914): 128 * r * 2^logN bytes of memory. The caller has checked the bounds. */
export interface ScryptCost {
  readonly logN: number;
  readonly r: 8;
  readonly p: 1;
  readonly salt: Uint8Array<ArrayBuffer>;
}

/** A passphrase. It never appears in arguments, the environment, logs or errors. */
export class Passphrase {
  /** How the files that this run encrypts derive their key. They share a salt, so that reading them again takes one derivation. */
  readonly newCost: ScryptCost;
  readonly #text: Secret<string>;
  /** The derivation takes most of a second, so a command that opens a file again does not repeat it. */
  readonly #keys = new Map<string, Promise<Secret<Uint8Array>>>();

  private constructor(text: Secret<string>, logN: number) {
    this.#text = text;
    this.newCost = { logN, r: 8, p: 1, salt: new Uint8Array(randomBytes(SALT_BYTES)) };
  }

  /**
   * One line of text, without its line end. Unicode is normalized (NFC), since keyboards and files may encode the same letter
   * differently. @param logN cost of new files; less only in tests
   * @throws WorkspaceError `workspace-passphrase-unusable`
   */
  static parse(text: Secret<string>, { logN = NEW_LOG_N } = {}): Passphrase {
    const line = text.reveal().normalize('NFC');
    if (line === '') throw unusable('it is empty');
    if (Buffer.byteLength(line) > MAX_PASSPHRASE_BYTES)
      throw unusable(`it has more than ${MAX_PASSPHRASE_BYTES} bytes`);
    if (/[\p{Cc}\uFFFD]/u.test(line))
      throw unusable('it contains a control character, a second line, or bytes that are not UTF-8');
    return new Passphrase(new Secret(line), logN);
  }

  /** @throws WorkspaceError `workspace-passphrase-unusable` for a passphrase that is too short for a new file */
  assertStrong(): void {
    const chars = [...this.#text.reveal()].length;
    if (chars < MIN_NEW_CHARS)
      throw unusable(`a new passphrase must have at least ${MIN_NEW_CHARS} characters`);
  }

  /** Whether both are the same text. */
  equals(other: Passphrase): boolean {
    return this.#text.reveal() === other.#text.reveal();
  }

  /** The key of 32 bytes for these parameters. */
  deriveKey({ logN, r, p, salt }: ScryptCost): Promise<Secret<Uint8Array>> {
    const name = [logN, r, p, Buffer.from(salt).toString('hex')].join();
    const known = this.#keys.get(name);
    if (known !== undefined) return known;
    const options = { N: 2 ** logN, r, p, maxmem: 128 * r * (2 ** logN + p + 2) };
    const key = derive(this.#text.reveal(), salt, KEY_BYTES, options).then((bytes) => new Secret(bytes));
    this.#keys.set(name, key);
    return key;
  }
}

/** Where this run of the program gets passphrases from: a descriptor or the terminal. */
export interface PassphraseSource {
  /**
   * The passphrase that protects the files of this run. Read once; later calls return the same one.
   * @param path the file that needs it, for the prompt and the error
   * @throws WorkspaceError `workspace-passphrase-needed`, `workspace-passphrase-unusable`, `workspace-passphrase-descriptor`
   */
  current(path: string): Promise<Passphrase>;
  /**
   * A new passphrase. Read once; a terminal asks for it twice.
   * @throws WorkspaceError as `current()`
   */
  create(options: NewPassphraseOptions): Promise<Passphrase>;
}

/** How a new passphrase is read without a terminal. */
export interface NewPassphraseOptions {
  /** Value of `--new-passphrase-fd`. */
  readonly descriptor?: number | undefined;
  /** Whether it replaces a passphrase; otherwise `--passphrase-fd` may contain the new one. */
  readonly replaces: boolean;
}

function unusable(why: string): WorkspaceError {
  return new WorkspaceError('workspace-passphrase-unusable', `reading the passphrase: ${why}`);
}
