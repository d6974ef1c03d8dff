import { createHash } from 'node:crypto';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import {
  buildSignerConfig,
  buildSignerUnit,
  SIGNER_UNIT,
  SIGNER_USER,
  type SignerCluster,
  type SignerEtcdFiles,
} from './signer-files.ts';

const MAX_BYTES = 64 * 1024;
/** So many looks in a row that find nothing new ask systemd nothing: a process each minute is half of what an idle agent does. */
const QUIET_LOOKS = 4;

export interface SignerUnitConfig {
  /** e.g. ["/usr/lib/cluster/node", "/usr/lib/cluster/signer.mjs"] */
  readonly command: readonly [string, ...string[]];
  /** "/etc/cluster/signer.json" */
  readonly configFile: string;
  readonly stateDir: string;
  /** User and group of the join service. */
  readonly joinserviceUser: string;
  readonly etcd: SignerEtcdFiles;
  readonly cluster: SignerCluster;
  /** The keys of the control plane: name in the key ring → file. Some come later than others. */
  readonly keys: Readonly<Record<string, string>>;
  /** Those that may stay away for good. */
  readonly optionalKeys: Readonly<Record<string, string>>;
}

export interface SignerUnitPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: SignerUnits;
}

/** The signer on this node. `start` may be repeated: it hands over keys that have come or changed, and restarts then only. */
export class SignerUnit {
  readonly #ports: SignerUnitPorts;
  #hasUsers = false;
  #inForce: { readonly unit: string; readonly quietLooks: number } | undefined;

  constructor(ports: SignerUnitPorts) {
    this.#ports = ports;
  }

  /** Answers the names of the keys that are not there yet. */
  async start(config: SignerUnitConfig, signal: AbortSignal): Promise<readonly string[]> {
    await this.#makeUsers(config, signal);
    const there = await this.#present({ ...config.keys, ...config.optionalKeys });
    const unit = buildSignerUnit({
      ...config,
      group: config.joinserviceUser,
      keys: there,
      credentialsSha256: await this.#hashOf(buildSignerConfig(config.cluster), [
        ...Object.values({ ...config.etcd }),
        ...Object.values(there),
      ]),
    });
    const quietLooks = this.#inForce?.unit === unit ? this.#inForce.quietLooks + 1 : 0;
    const isDue = quietLooks % (QUIET_LOOKS + 1) === 0;
    if (isDue) await this.#bringIntoForce(config, unit, signal);
    this.#inForce = { unit, quietLooks };
    return Object.keys(config.keys).filter((name) => !Object.hasOwn(there, name));
  }

  async stop(signal: AbortSignal): Promise<void> {
    this.#inForce = undefined;
    await this.#ports.units.stop(SIGNER_UNIT, signal);
  }

  async #bringIntoForce(
    { configFile, cluster }: SignerUnitConfig,
    unit: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { files, units } = this.#ports;
    await files.writeAtomic(configFile, buildSignerConfig(cluster));
    const changed = await units.install(SIGNER_UNIT, unit, signal);
    const { active } = await units.status(SIGNER_UNIT, signal);
    if (active === 'active' && changed) await units.restart(SIGNER_UNIT, signal);
    else if (active !== 'active') await units.start(SIGNER_UNIT, signal);
  }

  async #makeUsers({ joinserviceUser }: SignerUnitConfig, signal: AbortSignal): Promise<void> {
    if (this.#hasUsers) return;
    for (const [user, what] of [
      [joinserviceUser, 'join service'],
      [SIGNER_USER, 'signer'],
    ] as const) {
      const account = `u ${user} - "${what} (cluster)" /nonexistent`;
      await this.#ports.commands.run({
        argv: ['systemd-sysusers', '--inline', account],
        timeoutMs: 20_000,
        signal,
      });
    }
    this.#hasUsers = true;
  }

  async #present(keys: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>> {
    const there: Record<string, string> = {};
    for (const [name, path] of Object.entries(keys))
      if ((await this.#ports.files.stat(path)) !== undefined) there[name] = path;
    return there;
  }

  async #hashOf(config: string, paths: readonly string[]): Promise<string> {
    const hash = createHash('sha256').update(config);
    for (const path of paths) {
      const bytes = await this.#ports.files.read(path, MAX_BYTES);
      hash
        .update(path)
        .update('\0')
        .update(bytes ?? new Uint8Array())
        .update('\0');
    }
    return hash.digest('hex');
  }
}

/** What the signer's unit needs of systemd; `internal/platform` has it. */
export interface SignerUnits {
  install(unit: string, content: string, signal: AbortSignal): Promise<boolean>;
  start(unit: string, signal: AbortSignal): Promise<void>;
  restart(unit: string, signal: AbortSignal): Promise<void>;
  stop(unit: string, signal: AbortSignal): Promise<void>;
  status(unit: string, signal: AbortSignal): Promise<{ readonly active: string }>;
}
