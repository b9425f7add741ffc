export async function upgrade() {}
