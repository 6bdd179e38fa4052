//! Networks: addresses with or without a prefix length or mask.

use ipnet::IpNet;

/// One network.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let bad = || format!("`{text}` is no network; those look like 10.0.0.0/8 or 2001:db8::/32");
    let Some((address, length)) = text.split_once('/') else {
        return text.parse::<std::net::IpAddr>().map(IpNet::from).map_err(|_| bad());
    };
    let address: std::net::IpAddr = address.parse().map_err(|_| bad())?;
    if let Ok(length) = length.parse::<u8>() {
        return IpNet::new(address, length).map(|net| net.trunc()).map_err(|_| bad());
    }
    let mask: std::net::IpAddr = length.parse().map_err(|_| bad())?;
    IpNet::with_netmask(address, mask).map(|net| net.trunc()).map_err(|_| bad())
}
