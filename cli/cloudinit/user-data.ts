import { gzipSync } from 'node:zlib';
import { stringify } from 'yaml';
import { installCommand, type AgentPackage } from './agent-package.ts';

export const COLLATERAL_PATH = '/etc/cluster/collateral.json';

/** What cloud-init does on a machine. */
export interface UserData {
  /** The provisioning file. */
  readonly json: string;
  readonly collateral?: string | undefined;
  /** Undefined for an image that contains the agent. */
  readonly agentPackage: AgentPackage | undefined;
  /** Whether the provisioning has a state disk. */
  readonly hasStateDisk: boolean;
}

/** User data for cloud-init: the files, then the package that reads them. */
export function userDataOf({ json, collateral, agentPackage, hasStateDisk }: UserData): string {
  const config = {
    write_files: [
      {
        path: '/etc/cluster/provisioning.json',
        permissions: '0600',
        owner: 'root:root',
        content: json,
      },
      ...(collateral === undefined ? [] : [compressed(collateral)]),
    ],
    runcmd: [installCommand(agentPackage, { hasStateDisk })],
  };
  return `#cloud-config\n${stringify(config, { lineWidth: 0 })}`;
}

/** TCB infos compress to a quarter. */
function compressed(collateral: string) {
  return {
    path: COLLATERAL_PATH,
    permissions: '0644',
    owner: 'root:root',
    encoding: 'gz+b64',
    content: gzipSync(collateral, { level: 9 }).toString('base64'),
  };
}
