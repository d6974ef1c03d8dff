import { expect, test } from '@jest/globals';
import { refuseOptions } from './up.ts';

test.each(['ipv6', 'dual'] as const)(
  'refuseOptions() refuses --ip-family %s for virtual machines',
  (ipFamily) => {
    expect(() => refuseOptions({ ipFamily }, 'vm')).toThrow(
      expect.objectContaining({ code: 'mini-vm-option' }),
    );
    refuseOptions({ ipFamily }, 'container');
  },
);

test('refuseOptions() accepts IPv4 for virtual machines', () => {
  refuseOptions({ ipFamily: 'ipv4' }, 'vm');
  refuseOptions({}, 'vm');
});
