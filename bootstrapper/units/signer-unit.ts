import { createHash } from 'node:crypto';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { ensureSystemUser, ensureUnit } from './ensure-unit.ts';
import { JOINSERVICE_USER } from './service-unit.ts';
import {
  buildSignerConfig,
  buildSignerUnit,
  SIGNER_CONFIG,
  SIGNER_UNIT,
  SIGNER_USER,
  type SignerCluster,
  type SignerEtcdFiles,
} from './signer-config.ts';

const MAX_BYTES = 64 * 1024;
/**
 * Number of `start` calls without changes after which the next call queries systemd. The query starts a
 * process; one process a minute would be half of an idle agent's work.
 */
const UNCHECKED_STARTS = 4;

/** Settings with which the signer runs on this node. */
export interface SignerUnitConfig {
  readonly stateDir: string;
  readonly etcd: SignerEtcdFiles;
  readonly cluster: SignerCluster;
  /** Path of each control-plane key, by its name in the key ring. Some keys are created later than others. */
  readonly keys: Readonly<Record<string, string>>;
  /** Like `keys`, but a file may be missing for good. */
  readonly optionalKeys: Readonly<Record<string, string>>;
}

/** Ports (injected dependencies) of the signer's unit. */
export type SignerUnitPorts = Pick<SystemPorts, 'files' | 'commands' | 'units'>;

/**
 * Runs the signer on this node. `start` may be repeated: it restarts the unit only for new or changed keys or
 * configuration.
 */
export class SignerUnit {
  readonly #ports: SignerUnitPorts;
  #hasUsers = false;
  #current: { readonly content: string; readonly unchanged: number } | undefined;

  constructor(ports: SignerUnitPorts) {
    this.#ports = ports;
  }

  /**
   * Starts the signer with the keys that exist.
   * @returns names of the required keys that do not exist yet
   */
  async start(config: SignerUnitConfig, signal: AbortSignal): Promise<readonly string[]> {
    const { files, units } = this.#ports;
    await this.#ensureUsers(signal);
    const existing = await this.#existing({ ...config.keys, ...config.optionalKeys });
    const text = buildSignerConfig(config.cluster);
    const paths = [...Object.values<string>({ ...config.etcd }), ...Object.values(existing)];
    const credentialsSha256 = await this.#hashOf(text, paths);
    const content = buildSignerUnit({ ...config, keys: existing, credentialsSha256 });
    const unchanged = this.#current?.content === content ? this.#current.unchanged + 1 : 0;
    if (unchanged % (UNCHECKED_STARTS + 1) === 0) {
      await files.writeAtomic(SIGNER_CONFIG, text);
      await ensureUnit(units, { unit: SIGNER_UNIT, content }, signal);
    }
    this.#current = { content, unchanged };
    return Object.keys(config.keys).filter((name) => !Object.hasOwn(existing, name));
  }

  async stop(signal: AbortSignal): Promise<void> {
    this.#current = undefined;
    await this.#ports.units.stop(SIGNER_UNIT, signal);
  }

  async #ensureUsers(signal: AbortSignal): Promise<void> {
    if (this.#hasUsers) return;
    const { commands } = this.#ports;
    await ensureSystemUser(commands, { user: JOINSERVICE_USER, description: 'join service' }, signal);
    await ensureSystemUser(commands, { user: SIGNER_USER, description: 'signer' }, signal);
    this.#hasUsers = true;
  }

  async #existing(keys: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>> {
    const existing: Record<string, string> = {};
    for (const [name, path] of Object.entries(keys))
      if ((await this.#ports.files.stat(path)) !== undefined) existing[name] = path;
    return existing;
  }

  async #hashOf(config: string, paths: readonly string[]): Promise<string> {
    const hash = createHash('sha256').update(config);
    for (const path of paths) {
      const bytes = (await this.#ports.files.read(path, MAX_BYTES)) ?? new Uint8Array();
      hash.update(`${path}\0`).update(bytes).update('\0');
    }
    return hash.digest('hex');
  }
}
