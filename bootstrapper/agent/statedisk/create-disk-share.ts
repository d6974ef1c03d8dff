import {
  DiskQueue,
  giveShareToSigner,
  probeMovedShare,
  provisionedDisk,
  readShareKeeper,
  takeShareBack,
  type DiskPorts,
} from '../../disk/index.ts';
import { readKnownClusterCa } from '../../credentials/index.ts';
import type { KnownCa } from '../../joinclient/index.ts';
import type { AgentOptions, AgentPorts } from '../agent-ports.ts';
import { askShareWith, probeShareWith } from './create-ask-share.ts';
import type { DiskShare } from './disk-share-worker.ts';
import { DiskKeys } from './rotation-order.ts';
import type { OpenMachine } from '../open-machine.ts';
import type { OpenStorage } from '../open-storage.ts';

/** What a running agent changes on its state disk: it moves the cluster share, and replaces the keys. undefined without a state disk. */
interface DiskWork {
  readonly diskShare: DiskShare | undefined;
  readonly diskKeys: DiskKeys | undefined;
}

/** The work of a running agent on the state disk in its provisioning. */
export function createDiskShare(
  parts: AgentPorts &
    Pick<AgentOptions, 'provisioning'> &
    Pick<OpenMachine, 'tpm' | 'evidence'> &
    Pick<OpenStorage, 'state'>,
): DiskWork {
  const { provisioning, tpm, log } = parts;
  if (provisioning.stateDisk === undefined || tpm === undefined)
    return { diskShare: undefined, diskKeys: undefined };
  const ports: DiskPorts = { ...parts, tpm, log: log.child('disk') };
  const settings = provisionedDisk(provisioning.stateDisk);
  const { evidence } = parts;
  const readKnownCa = (): Promise<KnownCa> => readKnownClusterCa(parts);
  const member = { evidence, readKnownCa };
  const askShare = askShareWith(parts, parts, member);
  const probe = probeShareWith(parts, parts, member);
  const queue = new DiskQueue();
  const diskShare: DiskShare = {
    queue,
    readKeeper: (signal) => readShareKeeper(ports, settings, signal),
    give: (source, signal) => giveShareToSigner(ports, settings, { source, askShare, signal }),
    probe: (of, signal) => probeMovedShare(ports, settings, { of, probe, signal }),
    takeBack: (signal) => takeShareBack(ports, settings, { askShare, signal }),
  };
  return { diskShare, diskKeys: new DiskKeys({ ports, settings, askShare, queue }) };
}
