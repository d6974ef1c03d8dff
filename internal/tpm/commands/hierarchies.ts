/** Permanent handles of the hierarchies (Part 2, 7.4). */
export const HIERARCHY = { owner: 0x40000001, endorsement: 0x4000000b, null: 0x40000007 } as const;
