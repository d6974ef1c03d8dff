import type { CloudSetting, Provisioning } from '../../internal/config/index.ts';
import { familyOf, type IpFamily } from '../../internal/endpoint/index.ts';
import { ed25519SpkiFromRaw } from '../../internal/crypto/index.ts';
import {
  createMachineEvidence,
  createTpm,
  type MachineEvidence,
  createTpmLockRegister,
} from '../attest/index.ts';
import { addressBeside, type MachinePort } from '../../internal/platform/index.ts';
import type { Tpm } from '../../internal/tpm/index.ts';
import { addressFrom, type CloudHints, readCloudHints, topologyFrom } from '../cloudhints/index.ts';
import type { NamedKey } from '../consensus/index.ts';
import { refuseLostMachineKey } from '../enrolment/index.ts';
import type { HostSettings } from '../kubernetes/index.ts';
import { NodeLock } from '../nodelock/index.ts';
import { AGENT_PATHS, loadMachineIdentity, type MachineIdentity } from '../nodestate/index.ts';
import { createMachineChecks, type MachineChecks, requireUsableTpm } from '../preflight/index.ts';
import type { AgentOptions, AgentPorts } from './agent-ports.ts';
import { namedMachine } from './named-machine.ts';

/**
 * This machine, apart from any cluster: its key, its node lock, its evidence, and the owners that it was
 * provisioned with.
 */
export interface OpenMachine extends Pick<MachineIdentity, 'nodeId' | 'fingerprint'> {
  readonly identity: MachineIdentity;
  /** The machine of the ports, which has a name now. */
  readonly machine: MachinePort;
  readonly lock: NodeLock;
  /** Proves to others which machine this is: see bootstrapper/attest. */
  readonly evidence: MachineEvidence;
  /** undefined if the machine has none. */
  readonly tpm: Tpm | undefined;
  readonly checks: MachineChecks;
  readonly host: HostSettings;
  /** Raw Ed25519 public keys of the owners, for comparisons. */
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  /** The owners' keys as DER, with the names under which a new cluster records them. */
  readonly owners: readonly [NamedKey, ...NamedKey[]];
  /** Hints from the metadata service of this machine's cloud, such as a name; empty on bare metal. */
  readonly cloudHints: CloudHints;
  /** The address at which others reach this machine; a loopback address while the machine has no other address. */
  readonly currentAddress: (family?: IpFamily) => string;
  /** The address of the other IP family than this one; undefined if the machine has none. */
  readonly secondaryAddress: (address: string) => string | undefined;
  readonly hasAddress: () => boolean;
}

/**
 * Loads the key of the machine, or creates it at the first start, and opens the TPM and the node lock.
 * @throws EnrolmentError `enrolment-keys-missing` when the machine belongs to a cluster and its key is
 * missing
 * @throws TpmError `preflight-tpm-unusable`
 */
export async function openMachine(
  ports: AgentPorts,
  { provisioning, agentVersion: version, signal }: AgentOptions,
): Promise<OpenMachine> {
  const { files, log } = ports;
  for (const directory of [AGENT_PATHS.state, AGENT_PATHS.init, AGENT_PATHS.enrolment])
    await files.makeDirectory(directory);
  await refuseLostMachineKey(files);
  const identity = await loadMachineIdentity(files, AGENT_PATHS);
  const { fingerprint, nodeId } = identity;
  const machine = namedMachine(ports.machine, fingerprint);
  log.info('machine key loaded', { fingerprint, nodeId, version });
  const { tpm, lock, evidence } = openLockAndEvidence(ports, { provisioning, identity, signal });
  const isBound = async (): Promise<boolean> => (await lock.read()) !== undefined;
  await requireUsableTpm(ports, { tpm: provisioning.tpm, isBound, signal });
  const cloudHints = await readCloudHints(ports, {
    ...{ cloud: cloudOf(provisioning), path: AGENT_PATHS.cloudHints, signal },
    isBound: await isBound(),
  });
  const address = (family?: IpFamily): string | undefined => {
    const own = machine.addresses().filter((each) => family === undefined || familyOf(each) === family);
    return addressFrom(provisioning, own, cloudHints);
  };
  return {
    ...{ identity, machine, fingerprint, nodeId, tpm, lock, evidence, cloudHints },
    checks: createMachineChecks({ ...ports, machine }, { provisioning, tpm, signal }),
    host: hostSettings(provisioning, cloudHints),
    ...ownersFrom(provisioning),
    currentAddress: (family) => address(family) ?? address() ?? '127.0.0.1',
    secondaryAddress: (primary) => addressBeside(primary),
    hasAddress: () => address() !== undefined,
  };
}

/**
 * A machine of `cluster mini` is a container. It sees the firmware of its host, so it must not guess a cloud from the
 * firmware.
 */
function cloudOf({ platform, cloud }: Provisioning): CloudSetting {
  return platform === 'local' && cloud === 'auto' ? 'none' : cloud;
}

function hostSettings({ containerRuntime, kubelet }: Provisioning, hints: CloudHints): HostSettings {
  const topology = topologyFrom(hints);
  return {
    restrictOomScoreAdj: containerRuntime.restrictOomScoreAdj ?? false,
    failCgroupV1: kubelet.failCgroupV1 ?? true,
    ...(topology === undefined ? {} : { topology }),
  };
}

/**
 * Records the state of the node lock in a PCR before the machine creates any evidence. So all evidence shows the
 * current state of the lock.
 */
function openLockAndEvidence(
  ports: AgentPorts,
  at: Pick<AgentOptions, 'provisioning' | 'signal'> & Pick<OpenMachine, 'identity'>,
): Pick<OpenMachine, 'tpm' | 'lock' | 'evidence'> {
  const { files, clock } = ports;
  const { provisioning, identity, signal } = at;
  const tpm = createTpm(provisioning.tpm, clock);
  const register =
    tpm === undefined || provisioning.tpm.kind === 'none'
      ? {}
      : { register: createTpmLockRegister({ tpm, pcr: provisioning.tpm.lockPcr, signal }) };
  const lock = new NodeLock({ files, path: AGENT_PATHS.lock, nowMs: () => clock.nowMs(), ...register });
  const evidence = createMachineEvidence({
    ...{ ...ports, provisioning, tpm, machineKeyPem: identity.keyPem },
    keySecretPath: AGENT_PATHS.keySecret,
    mirrorLock: () => lock.mirrorToRegister(),
  });
  return { tpm, lock, evidence };
}

/** Raw Ed25519 public keys of the owners in the provisioning, which has at least one. */
export function ownerKeysOf({ ownerKeys }: Pick<Provisioning, 'ownerKeys'>): OpenMachine['ownerKeys'] {
  const [first, ...more] = ownerKeys.map((base64) => new Uint8Array(Buffer.from(base64, 'base64')));
  if (first === undefined) throw new TypeError('the provisioning has no owner key');
  return [first, ...more];
}

function ownersFrom(provisioning: Provisioning): Pick<OpenMachine, 'ownerKeys' | 'owners'> {
  const ownerKeys = ownerKeysOf(provisioning);
  const [first, ...more] = ownerKeys;
  const named = (raw: Uint8Array, name: string): NamedKey => ({ name, pubKeyDer: ed25519SpkiFromRaw(raw) });
  return {
    ownerKeys,
    owners: [named(first, 'owner'), ...more.map((raw, index) => named(raw, `owner-${index + 2}`))],
  };
}
