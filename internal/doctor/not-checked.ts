import type { Layer } from './doctor-checks.ts';

/** What doctor cannot check, listed so that a clean result is not read as a result for these too. */
export const NOT_CHECKED: readonly { readonly layer: Layer; readonly what: string; readonly why: string }[] =
  [
    {
      layer: 'nodes',
      what: 'clocks of workers',
      why: 'no call returns them; doctor reads the clocks of API servers only',
    },
    {
      layer: 'nodes',
      what: 'name servers, MTU, swap, kernel modules and cgroups',
      why: '`cluster preflight` checks them on the machine itself',
    },
    {
      layer: 'nodes',
      what: 'TPM, evidence and reference values',
      why: '`cluster verify NODE` checks fresh evidence',
    },
    {
      layer: 'disks',
      what: 'read-only file systems',
      why: 'agents do not report them',
    },
    {
      layer: 'etcd',
      what: 'equal content of all members',
      why: 'curators do not return the hashes of members',
    },
    {
      layer: 'backups',
      what: 'files outside of the cluster',
      why: '`cluster backup ls DIRECTORY` and `cluster backup verify` check them',
    },
  ];
