/**
 * All phases from power-on to a running node, in order. The first node and nodes that join use the same
 * names. The end-to-end tests of faults run once for each phase, and the agent cannot run an unlisted phase.
 */
export const PHASES = [
  { name: 'preflight', title: 'Checking the machine', before: 'lock' },
  { name: 'lock', title: 'Binding the machine to the cluster', before: 'lock' },
  { name: 'components', title: 'Installing components', before: 'membership' },
  { name: 'images', title: 'Importing container images', before: 'membership' },
  { name: 'consensus', title: 'Starting etcd', before: 'membership' },
  { name: 'membership', title: 'Creating the cluster', before: 'membership' },
  { name: 'curator', title: 'Starting the curator', before: 'serving' },
  { name: 'pki', title: 'Making Kubernetes certificates', before: 'serving' },
  { name: 'control-plane', title: 'Starting the Kubernetes control plane', before: 'serving' },
  { name: 'settings', title: 'Storing the cluster settings', before: 'serving' },
  { name: 'node', title: 'Registering the node', before: 'serving' },
] as const;

export type PhaseName = (typeof PHASES)[number]['name'];
