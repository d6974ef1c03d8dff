import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const nodesErrors = defineErrors({
  'manage-node-unknown': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The cluster knows no node of this name or id.',
    fix: 'See `cluster node ls` for all of them, `cluster node ls --joins` for machines that wait to be let in.',
  },
  'manage-join-unknown': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'No machine of this join id, fingerprint or identity has asked to join, or the beginning fits several.',
    fix: 'See `cluster node ls --joins`, and name more of it.',
  },
  'nodes-removed-unknown': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'No machine that was removed has this name, node id or identity, or several have.',
    fix: 'See `cluster node ls --removed`, and name it by its identity.',
  },
  'nodes-flag-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'A flag or argument has a form that means nothing. Nothing was done.',
    fix: 'The message says what would be right.',
  },
  'cloudinit-package-path': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'The agent’s package was named by a path of this workstation, which means nothing to a machine. Nothing was done.',
    fix: 'Name an address that machines reach (`https://…`; `cluster package repo` makes a directory to serve), or `file:///PATH` for a package that lies in the image of the machine.',
  },
  'cloudinit-package-unverified': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'The agent’s package would come over plain HTTP, so that everybody on the way could replace it. Nothing was done.',
    fix: 'Serve it over HTTPS, or say what it must be: `--package-sha256 $(sha256sum FILE | cut -c1-64)`.',
  },
  'cloudinit-package-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'What was said of the agent’s package has a form that means nothing. Nothing was done.',
    fix: 'Name `--package https://…` (or `http://…`, `file:///PATH`) and `--package-sha256` with 64 hex digits.',
  },
  'nodes-change-unsafe': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The change would harm the cluster; it was not made.',
    fix: 'The message says what must be done first.',
  },
  'configuration-base-unknown': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'Somebody has changed the configuration of the cluster since its init, and this workspace has not applied one yet: it is not known which revision this file was made from. Nothing was changed.',
    fix: 'Compare the file with `cluster config show`, write into it what it lacks, then run `cluster config apply --onto REVISION` with the revision that was shown.',
  },
  'configuration-unreadable': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The configuration that the cluster keeps cannot be read by this version: it was written by another one or past the curator. It can only be replaced as a whole. Nothing was changed.',
    fix: 'See it with `cluster config show`, write what is to stay of it into the file, then run `cluster config apply --onto REVISION` with the revision that was shown; or use `cluster config edit`.',
  },
  'configuration-conflict': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The file and somebody else changed the same places to different things. Nothing was changed; the message names each with its line.',
    fix: 'Decide for each place and write it into the file, then say which revision that was decided on: `cluster config apply --onto REVISION`.',
  },
  'configuration-immutable': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The file changes what a cluster keeps from its init on; the message names each place with its line. Nothing was changed.',
    fix: 'Undo that part. `join`, `certificates` and `attestation` (but for `lockPcr`) can change; for the rest make a new cluster.',
  },
  'nodes-drain-blocked': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'Pods on the node would be lost for good when they are moved away. No pod was touched; the node takes no new ones.',
    fix: 'Move them by hand, or say that they may go: --delete-emptydir-data, --force.',
  },
  'nodes-drain-timeout': {
    fault: 'operator',
    exit: 'partial',
    retryable: true,
    meaning: 'Pods did not leave the node in time; the message names them. The node takes no new ones.',
    fix: 'Look at the disruption budgets and at what the pods wait for, then run the same command again.',
  },
  'keys-still-accepted': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'A node was removed, and something of the cluster did not yet prove that it is gone; the message says what.',
    fix: "Run `cluster node remove` with the node's id, which the message names; it asks again.",
  },
  'keys-rotation-stalled': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'The keys that control planes share are being replaced, and for ten minutes that has come no further; the message says which phase it is and whom it waits for.',
    fix: 'Bring back the nodes that the message names, or remove those that will not come back: it goes on by itself; `cluster keys show` says how far it is, `cluster keys rotate` follows it.',
  },
  'keys-rotation-unsupported': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The control planes are of a version that cannot replace the keys that they share.',
    fix: 'Upgrade the agent on every node, then run the same command again.',
  },
  'nodes-role-change-timeout': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'The roles of a node were changed and are on record, but its processes have not followed yet; the message says what is missing.',
    fix: 'See what the node waits for with `cluster node show NODE`, mend that, then run the same command again: it only waits.',
  },
  'nodes-not-verified': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning:
      'The fresh evidence of a node does not show what is expected of it; the message names the check.',
    fix: 'Take the node out of service (`cluster node cordon`) until it is explained; compare what changed on it.',
  },
  'audit-log-altered': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning:
      'The audit of the cluster is not the one that was seen before: an entry was changed, dropped or put elsewhere.',
    fix: 'Compare the named entry with earlier exports; treat all decisions after it as doubtful.',
  },
});

export type NodesErrorCode = keyof typeof nodesErrors;

export class NodesError extends errorClass(nodesErrors) {}
